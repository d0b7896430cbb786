"""Pages to open: exports made from values, without a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pi_session_cli
from pi_sessions.formats.exports import Export, read_export
from pi_sessions.formats.html import export_lines
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.results import Branch, Label
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry

SAMPLE = Path(pi_session_cli.__file__).parent / "demo" / "sample.jsonl"
ATTACKS = (
    "<script>window.owned = 1</script>",
    '<img src=x onerror="window.owned = 2">',
    '<svg onload="window.owned = 3"><script>window.owned = 4</script></svg>',
    "<style>body { display: none }</style>",
    "</div></section></main></body></html>",
    "</script><script>window.owned = 5</script>",
    "</textarea></title></style><iframe src='https://evil.example/'></iframe>",
    "<!-- unclosed <plaintext> <xmp> <noscript>",
    "[click](javascript:window.owned=6) [click](JaVaScRiPt:window.owned=7)",
    "[x](data:text/html,<script>window.owned=8</script>) [y](  javascript:window.owned=8)",
    "![x](https://evil.example/pixel.png) ![y](javascript:window.owned=9) ![z](file:///etc/passwd)",
    "<a href='javascript:window.owned=10'>x</a> <javascript:window.owned=11> [v](vbscript:x) [f](#e-x)",
    "{{ 7 * 7 }} {% for x in y %} ${7*7} #{7*7} <%= 7*7 %> {# gone #}",
    "right \u202egnirts\u202c left \u2066isolate \u200f mark \u2028 separator \x1b[31mred\x1b[0m \x07 \x00 \x9b31m",
    "` ``` ~~~ unclosed\n```html\n<script>window.owned = 12</script>\n<b onclick=window.owned=13>",
    "<base href='https://evil.example/'><meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<form action=https://evil.example/><input autofocus onfocus=window.owned=14><button>go</button></form>",
    "<math><mtext></mtext><mglyph><style></math><img src onerror=window.owned=15>",
    "a" * 3000 + " " + "日本" * 400,
    "| a | b |\n|---|---|\n| " + "wide " * 200 + " | <script>window.owned=16</script> |",
    "> " * 60 + "deep\n\n" + "- " * 60 + "deep",
)


def entry(number: int, parent: int | None, message: dict[str, Any] | None = None, **fields: Any) -> StoredEntry:
    """Return an entry with a number for its id."""
    base = {"id": f"{number:08x}", "parentId": None if parent is None else f"{parent:08x}"}
    own = {"type": "message", "message": message} if message is not None else fields
    return StoredEntry.from_dict({**base, "timestamp": "2026-03-02T09:00:00.000Z", **own})


def said(role: str, text: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a message."""
    return {"role": role, "content": [{"type": "text", "text": text}, *blocks], "model": "m", "provider": "p"}


def hostile() -> Export:
    """Return a session in which everything that can be text attacks the page."""
    entries: list[StoredEntry] = []
    for attack in ATTACKS:
        at = len(entries)
        call = {
            "type": "toolCall",
            "id": f"c{at}",
            "name": attack,
            "arguments": {"command": attack, "path": attack, attack: [attack]},
        }
        edit = {
            "type": "toolCall",
            "id": "e",
            "name": "edit",
            "arguments": {"path": attack, "oldText": attack, "newText": attack + "\n"},
        }
        thinking = {"type": "thinking", "thinking": attack}
        result = {
            "role": "toolResult",
            "toolCallId": f"c{at}",
            "toolName": attack,
            "content": [{"type": "text", "text": attack}],
        }
        image = {"type": "image", "mimeType": 'image/png" onerror="window.owned=17', "data": attack}
        drawing = {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+"}
        failed = {
            **said("assistant", attack, thinking, call, edit),
            "model": attack,
            "stopReason": "error",
            "errorMessage": attack,
        }
        for message in (
            said("user", attack, image, drawing),
            failed,
            {**result, "isError": True},
            {"role": attack, "content": attack},
        ):
            entries.append(entry(len(entries), len(entries) - 1 if entries else None, message))
        for fields in (
            {"type": "compaction", "summary": attack},
            {"type": "custom_message", "customType": attack, "content": attack},
            {"type": attack, "name": attack, attack: attack},
        ):
            entries.append(entry(len(entries), len(entries) - 1, **fields))
    entries.append(entry(len(entries), len(entries) - 1, said("user", "LAST-MESSAGE-MARKER")))
    leaf = entries[-1].id
    with SessionStore.open(":memory:") as store:
        session = store.create_session(cwd=ATTACKS[0], name="".join(ATTACKS[:6]))
    marks = tuple(Label(entries[place].id, attack, None) for place, attack in enumerate(ATTACKS))
    names = (
        Branch("main", leaf, True),
        *(Branch(attack, entries[place].id, False) for place, attack in enumerate(ATTACKS)),
    )
    return Export(session, tuple(entries), leaf, True, labels=marks, branches=names, made_by=ATTACKS[1])


def large(number: int) -> Export:
    """Return a tree with so many entries, of the kinds a working session has, with a fork every 500."""
    entries: list[StoredEntry] = []
    for place in range(number):
        parent = place - 1 - (120 if place % 500 == 499 else 0)
        code = f"```python\ndef renew(job={place}):\n    return 1\n```"
        text = f"Step {place}: `lease.renew()` in **batch {place}**.\n\n{code}"
        call = {
            "type": "toolCall",
            "id": f"c{place}",
            "name": "bash",
            "arguments": {"command": f"grep -n renew worker_{place}.py"},
        }
        output = {"role": "toolResult", "toolCallId": f"c{place - 1}", "toolName": "bash", "content": "line\n" * 12}
        message = (
            said("user", f"Question {place}"),
            said("assistant", text, call),
            output,
            said("assistant", f"Found needle-{place}."),
        )
        entries.append(entry(place, None if place == 0 else parent, message[place % 4]))
    with SessionStore.open(":memory:") as store:
        session = store.create_session(cwd="/proj/large", name="Large")
    leaf = entries[-1].id
    return Export(session, tuple(entries), leaf, True, branches=(Branch("main", leaf, True),))


def from_file(path: Path) -> Export:
    """Return the whole tree of a Pi session file."""
    with SessionStore.open(":memory:") as store:
        imported = store.import_session(read_pi_file(str(path))).session
        return read_export(store, imported, imported.leaf, whole_tree=True)


def write(export: Export, path: Path) -> Path:
    """Write a page and return where it is."""
    path.write_text("".join(export_lines(export)), "utf-8")
    return path
