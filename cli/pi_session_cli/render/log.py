"""View of `log`: a transcript to read, entry by entry.

Tool calls stand in one line each, above the beginning of their result; in full, results stand for themselves. Text
stays as it was written: Markdown is coloured where there is colour, long lines are broken between words on a terminal.
"""

from __future__ import annotations

import json

from pi_session_cli.render.prose import paint_lines
from pi_session_cli.render.safe import block, one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.wire import session_json
from pi_session_cli.render.words import calls, gist, speaker, stop_words, styles, system_gist, text_of
from pi_sessions.context import blocks_of
from pi_sessions.pairing import results_by_call
from pi_sessions.records import Record
from pi_sessions.texts import content_text, system_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Label, Session
    from pi_sessions.stored import JsonObject, StoredEntry

RESULT_LINES = 8
CALL_LENGTH = 160
GIST_LENGTH = 100


class Transcript(Record):
    """A path to read.

    Attributes:
        entries: In order.
        before: How many entries of the path lie before the first one.
        whole: Show thinking and results in full.
    """

    session: Session
    entries: tuple[StoredEntry, ...]
    labels: dict[str, Label]
    before: int
    whole: bool


def lines(data: Transcript, screen: Screen) -> Iterator[str]:
    """Yield the transcript."""
    if data.before:
        yield screen.paint(f"({count(data.before, 'entry', 'entries')} before)", "dim")
        yield ""
    results = {} if data.whole else folded_results(data.entries)
    told = {id(result) for under in results.values() for result in under.values()}
    shown = [entry for entry in data.entries if id(entry) not in told]
    for place, entry in enumerate(shown):
        if place:
            yield ""
        label = data.labels.get(entry.id)
        yield title(entry, label.text if label else None, screen)
        yield from said_lines(entry, data.whole, results.get(entry.id, {}), screen)


def said_lines(entry: StoredEntry, whole: bool, results: Mapping[int, StoredEntry], screen: Screen) -> Iterator[str]:
    """Yield what an entry says, indented, as the screen has room and colour for it.

    Args:
        whole: Show thinking, arguments and outputs in full.
        results: Results to tell under their call, by its place among the blocks.
    """
    if entry.role == "assistant":
        yield from answer_lines(entry.message or {}, whole, results, screen)
    elif is_prose(entry):
        yield from paint_lines(body(entry, whole), screen, indent=2)
    else:
        yield from (f"  {line}".rstrip() for line in body(entry, whole))


def answer_lines(message: JsonObject, whole: bool, results: Mapping[int, StoredEntry], screen: Screen) -> Iterator[str]:
    """Yield an answer: its text as prose, its calls one line each, cut to the screen unless the whole is wanted."""
    text: list[str] = []
    for is_text, line in answer_parts(message, whole, results):
        if is_text:
            text.append(line)
            continue
        yield from paint_lines(text, screen, indent=2)
        text = []
        yield f"  {line if whole or screen.columns is None else screen.line(line, 2)}".rstrip()
    yield from paint_lines(text, screen, indent=2)


def folded_results(entries: Sequence[StoredEntry]) -> dict[str, dict[int, StoredEntry]]:
    """Return the results that can stand under their call: by the entry with the call and the call's place in it."""
    results: dict[str, dict[int, StoredEntry]] = {}
    for (call, place), result in results_by_call([entry.message for entry in entries]).items():
        results.setdefault(entries[call].id, {})[place] = entries[result]
    return results


def is_prose(entry: StoredEntry) -> bool:
    """Whether an entry's text is Markdown: what people, models and summaries say, no outputs."""
    return entry.role not in ("toolResult", "bashExecution")


def title(entry: StoredEntry, label: str | None, screen: Screen) -> str:
    """Return the line above what is said: speaker, id, time, model, label."""
    message = entry.message or {}
    who = screen.paint(one_line(speaker(entry)), *styles(entry))
    parts = [who, screen.paint(one_line(entry.id), "yellow"), screen.paint(screen.when(entry.time_ms), "dim")]
    if message.get("role") == "assistant" and message.get("model"):
        parts.append(screen.paint(one_line(text_of(message.get("model"))), "dim"))
    if label:
        parts.append(screen.paint(f"[{one_line(label)}]", "yellow", "bold"))
    return "  ".join(parts)


def body(entry: StoredEntry, whole: bool) -> Iterator[str]:
    """Yield what an entry says, line by line, safe for a terminal."""
    if entry.type != "message":
        yield from fields_body(entry)
        return
    message = entry.message or {}
    role = message.get("role")
    if role == "bashExecution":
        yield f"$ {one_line(text_of(message.get('command')))}"
        yield from shortened(text_of(message.get("output")), whole)
    elif role == "toolResult":
        yield one_line(text_of(message.get("toolName"))) + (" failed" if message.get("isError") else "")
        yield from shortened(content_text(message.get("content")), whole)
        yield from images(message)
    elif role == "assistant":
        yield from (line for _, line in answer_parts(message, whole, {}))
    elif role == "system":
        yield from system_lines(message, whole)
    else:
        yield from block(content_text(message.get("content")).strip("\n"))
        yield from images(message)


def system_lines(message: JsonObject, whole: bool) -> Iterator[str]:
    """Yield what a system message sets: its text, else what it is about; the whole prompt when it is wanted."""
    text = system_text(message) if whole else content_text(message.get("content"))
    told = message if not text else {**message, "content": "", "sections": None}
    yield from block(text.strip("\n")) if text else ()
    gist = one_line(system_gist(told))
    if not text or gist != "(empty)":
        yield gist


def answer_parts(message: JsonObject, whole: bool, results: Mapping[int, StoredEntry]) -> Iterator[tuple[bool, str]]:
    """Yield the lines of an answer's blocks in order, each with whether it is text.

    Args:
        whole: Show thinking and arguments in full.
        results: Results to tell under their call, by its place among the blocks.
    """
    for place, each in enumerate(blocks_of(message.get("content"))):
        kind = each.get("type")
        if kind == "text" and text_of(each.get("text")).strip():
            yield from ((True, line) for line in block(text_of(each.get("text")).strip("\n")))
        elif kind == "thinking" and text_of(each.get("thinking")):
            thought = text_of(each.get("thinking"))
            if whole:
                yield from ((False, f"(thinking) {line}") for line in block(thought))
            else:
                yield False, f"(thinking, {count(len(thought), 'character')})"
        elif kind == "toolCall":
            result = results.get(place)
            yield False, call_line(each, whole)
            if result is not None:
                yield False, f"  -> {result_gist(result)}"
    stopped = stop_words(message)
    if stopped:
        yield False, f"({stopped})"


def result_gist(result: StoredEntry) -> str:
    """Return how a tool call came out: its first line, how many more there are, whether it failed, its entry."""
    message = result.message or {}
    told = [line for line in block(content_text(message.get("content"))) if line.strip()]
    first = one_line(told[0], GIST_LENGTH) if told else "(no output)"
    more = f" (+{count(len(told) - 1, 'line')})" if len(told) > 1 else ""
    return (
        f"{'failed: ' if message.get('isError') else ''}{first}{more}{''.join(f' {each}' for each in images(message))}"
    )


def call_line(call: JsonObject, whole: bool) -> str:
    """Return a tool call with its arguments on one line."""
    arguments = call.get("arguments")
    told = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in (arguments.items() if isinstance(arguments, dict) else ())
    )
    text = one_line(f"{text_of(call.get('name'))}({told})", 100_000)
    return text if whole or len(text) <= CALL_LENGTH else text[: CALL_LENGTH - 3] + "..."


def shortened(text: str, whole: bool) -> Iterator[str]:
    """Yield the lines of an output, the first few unless the whole is wanted."""
    told = list(block(text.strip("\n")))
    shown = told if whole or len(told) <= RESULT_LINES + 1 else told[:RESULT_LINES]
    yield from (f"| {line}" for line in shown if text)
    if len(told) > len(shown):
        yield f"| ({count(len(told) - len(shown), 'more line')}; --full shows them)"


def images(message: JsonObject) -> Iterator[str]:
    """Yield a line per image: its kind and size, never its bytes."""
    content = message.get("content")
    for each in content if isinstance(content, list) else ():
        if isinstance(each, dict) and each.get("type") == "image":
            size = len(text_of(each.get("data"))) * 3 // 4
            yield f"[image {one_line(text_of(each.get('mimeType')))}, {count(size, 'byte')}]"


def fields_body(entry: StoredEntry) -> Iterator[str]:
    """Yield what an entry other than a message says."""
    fields = entry.fields
    if entry.type in ("compaction", "branch_summary"):
        yield from block(text_of(fields.get("summary")).strip("\n"))
    elif entry.type == "custom_message":
        yield from block(content_text(fields.get("content")).strip("\n"))
    else:
        text = one_line(gist(entry))
        if text:
            yield text


def readable(entries: Iterable[StoredEntry]) -> list[StoredEntry]:
    """Return the entries a reader of a transcript wants: no bookkeeping, no empty answers."""
    kinds = ("message", "compaction", "branch_summary", "custom_message", "model_change", "context_edit")
    return [entry for entry in entries if entry.type in kinds and (entry.type != "message" or says(entry))]


def says(entry: StoredEntry) -> bool:
    """Whether a message has anything to show."""
    message = entry.message or {}
    return message.get("role") != "assistant" or bool(calls(message)) or gist(entry) != "(empty)"


def to_json(data: Transcript) -> dict[str, object]:
    """Return the entries as Pi writes them."""
    return {
        "session": session_json(data.session),
        "before": data.before,
        "entries": [entry.to_dict() for entry in data.entries],
    }
