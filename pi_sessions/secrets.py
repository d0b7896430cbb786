"""Finds keys, tokens and passwords in texts and puts marks in their places. Pure: reads no store, no environment.

A `Redactor` serves one document (an export): the same secret gets the same mark everywhere, a value that was recognised
in one place (`DEPLOY_TOKEN=...`) is replaced where it stands alone, too, and a report says what was replaced where.
Hashes of commits and ids stay: nothing is taken for a secret only because it looks random.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64

from pi_sessions.records import Record
from pi_sessions.secret_rules import NAME_HINTS, RULES, SECRET_NAME, SHORTEST_KEY
from pi_sessions.stored import StoredEntry, dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from pi_sessions.secret_rules import Rule

SHORTEST = 8
SHORTEST_WORD = 11  # a password of small letters only is looked for elsewhere from this length on
SHORTEST_CUT = 10
SHORTEST_GIVEN = 6
LONGEST_NAME = 64
LONGEST_VALUE = 512
SHORT_TEXT = 64
SHORT_TEXTS = 10_000
MARK = "[redacted:"
PICTURE = "image"
_PICTURE_DATA = "the data of a picture"

_SIGN = re.compile(r"[=:]")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_VALUE = re.compile(
    r"(?<![=!<>:+\-*/|&])(?P<sign>=>|:=|=(?![=~])|:(?![:/=]))\*{0,3}\s{0,4}(?P<open>\\*[\"'`]?)"
    r"(?P<secret>(?![,;(){}\[\]|&])[^\s\"'`\\<>]{6,512})?"
)
# What goes on behind a value without quotes: the next of several settings on the line.
_NEXT_SETTING = re.compile(r"[,;&|](?=[A-Za-z_][\w.%\-]{0,63}[=:])")
_CALLED = re.compile(
    r"[A-Za-z_][\w.:\->]{0,100}(?:\([^)]*(?:\)(?:[.,;:(\[)\]}].*)?)?|\[[^\]]*(?:\](?:[=.,;:(\[)\]}|].*)?)?)\Z"
)
_CLOSING = {")": "(", "]": "[", "}": "{"}
_PROSE = re.compile(r"(?i)\b(?:your|enter|must|forgot|invalid|required|password|passphrase|please|the|is|for)\b")
_CELL = re.compile(
    r"(?m)\|[ \t]{0,8}[`*]{0,2}(?P<name>[A-Za-z][\w.\-]{2,63})[`*]{0,2}[ \t]{0,64}(?=\|[ \t]{0,64}`?"
    r"(?P<secret>[^\s|`<>]{6,256})`?[ \t]{0,256}(?:\||$))"
)
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w.:\-]{2,63})(?:\s[^<>]{0,200})?>\s{0,8}(?P<secret>[^<>\n]{6,512})(?=</)")
_TOLD = re.compile(
    r"(?<![\w.])(?:ENV|ARG|setenv|setx|set -g?xU?)[ \t]{1,8}(?P<name>[A-Za-z_]\w{2,63})[ \t]{1,8}[\"']?"
    r"(?P<secret>[^\s\"'\\=]{6,512})"
)
# Fields below a field that is named like a secret, which hold it.
_HOLDERS = frozenset({"value", "secret", "key", "data", "raw", "plain", "plaintext", "text", "content", "current"})
_UNDER = "under "
_SECRET_NAME = re.compile(rf"(?i){SECRET_NAME}\Z")
_NAME_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_SMALL = {point: point + 32 for point in range(ord("A"), ord("Z") + 1)}
_URL_SIGNS = str.maketrans("+/", "-_")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+")
_PLACEHOLDER = re.compile(
    r"(?i)\$[a-z_({]|%[a-z_(]|[<{]|\[redacted:|process\.|os\.|env[.\[]|.{0,80}?(?:your[_\-]|change[_\-]?me|placeholder|replace[_\-]?me|"
    r"[_\-]here\b|\$\{|\{\{)|(?:none|null|nil|true|false|undefined|required|optional|enabled|disabled|unknown|"
    r"password|redacted|missing|invalid|expired|default|secret|string)\Z|(.)\1*\Z|[*x.\-_]+\Z"
)
_CUT = re.compile(r"(?:…|\.{3}|\Z)")
_compiled: dict[str, re.Pattern[str]] = {}
_hints: dict[int, _Hints] = {}


class Found(Record):
    """A likely secret in a text: `text[start:end]`."""

    kind: str
    start: int
    end: int
    value: str


class Replacement(Record):
    """What a redactor put in the place of a secret.

    Attributes:
        kind: Kind of secret.
        mark: What stands there now.
        where: Where, in the caller's words (an entry id, "session name").
        count: How often.
    """

    kind: str
    mark: str
    where: str
    count: int


def redact(text: str, rules: Sequence[Rule] = RULES) -> tuple[str, list[Found]]:
    """Return a text with marks in place of likely secrets, and what was found in it.

    Args:
        text: Any text.
        rules: What is looked for; values assigned to names such as `API_KEY` always are.

    Returns:
        The safe text, and the secrets with their places in the text that was given.
    """
    found = find_secrets(text, rules)
    return Redactor(rules).text(text), found


def find_secrets(text: str, rules: Sequence[Rule] = RULES) -> list[Found]:
    """Return the likely secrets of a text in their order, overlapping ones as one."""
    if len(text) < SHORTEST:
        return []
    return merged(text, [*_by_rules(text, rules), *_assigned(text)])


def is_plausible(value: str) -> bool:
    """Whether a value found by its surroundings can be a secret, and is no variable, placeholder or plain word."""
    return not (_PLACEHOLDER.match(value) or _DOTTED.fullmatch(value))


def names_secret(name: str) -> bool:
    """Whether the value of a variable or field of this name is a secret: `DEPLOY_TOKEN`, `apiKey`, `db.password`."""
    return _SECRET_NAME.search(name) is not None


def environment_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of an environment: value -> kind, made from the variable's name.

    Args:
        environ: Variables; those that are named like secrets count, unless their value is a path or too short.
    """
    found: dict[str, str] = {}
    for name, value in environ.items():
        text = value.strip()
        if len(text) >= SHORTEST and names_secret(name) and is_plausible(text) and not text.startswith(("/", "~")):
            found.setdefault(text, name.lower().replace("_", "-"))
    return found


def base64_forms(value: str) -> list[str]:
    """Return a secret as it stands in base64, whatever stands before and behind it; none for a short one.

    The same bytes are written in three ways, by where they begin; characters that neighbours have a part in are left
    out.
    """
    raw = value.encode("utf-8", "surrogatepass")
    if len(raw) < SHORTEST:
        return []
    forms: dict[str, None] = {}
    for before in range(3):
        run = b2a_base64(b"\0" * before + raw, newline=False).decode()
        inner = run[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
        forms |= dict.fromkeys((inner, inner.translate(_URL_SIGNS)))
    return list(forms)


def merged(text: str, found: Iterable[Found]) -> list[Found]:
    """Return secrets in their order; those that overlap become one that covers all of them, of the longest's kind."""
    spans: list[list[int]] = []
    kinds: list[str] = []
    longest = 0
    for each in sorted(found, key=lambda one: (one.start, one.start - one.end)):
        length = each.end - each.start
        if spans and each.start < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], each.end)
            if length > longest:
                kinds[-1] = each.kind
            longest = max(longest, length)
        else:
            longest = length
            spans.append([each.start, each.end])
            kinds.append(each.kind)
    return [Found(kind, start, end, text[start:end]) for kind, (start, end) in zip(kinds, spans, strict=True)]


def _by_rules(text: str, rules: Sequence[Rule]) -> Iterator[Found]:
    for rule, hints in _possible(text, rules):
        pattern = _compiled.get(rule.pattern)
        if pattern is None:
            pattern = _compiled[rule.pattern] = re.compile(rule.pattern)
        group: str | int = "secret" if "secret" in pattern.groupindex else 0
        for match in _matches(text, rule, pattern, hints):
            value = match[group]
            if not rule.guarded or is_plausible(value):
                yield Found(rule.kind, *match.span(group), value)


def _matches(text: str, rule: Rule, pattern: re.Pattern[str], hints: Sequence[str]) -> Iterator[re.Match[str]]:
    """Yield the matches of a rule's pattern, which is tried only around the rule's hints."""
    if not hints:
        yield from pattern.finditer(text)
        return
    searched = _lowered(text) if rule.folded else text
    for hint in hints:
        at = searched.find(hint)
        while at >= 0:
            behind = at + 1
            for back in rule.back:
                match = pattern.match(text, at - back) if at >= back else None
                if match is not None:
                    yield match
                    behind = max(match.end(), behind)
                    break
            at = searched.find(hint, behind)


def _lowered(text: str) -> str:
    """Return a text in small letters, each in its place."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_SMALL)


def _possible(text: str, rules: Sequence[Rule]) -> Iterable[tuple[Rule, list[str]]]:
    """Return the rules whose hints stand in a text, with these; most texts hold none, and that is all they cost.

    Hints of keys are looked for in the long words of the text only: no key is shorter.
    """
    known = _hints.get(id(rules))
    if known is None or known.rules is not rules:
        known = _hints[id(rules)] = _Hints(rules)
    found: dict[int, list[str]] = {}
    words = "\n".join([word for word in text.split() if len(word) >= SHORTEST_KEY])
    lowered = text.lower() if known.folded else ""
    for told, searched in ((known.plain, text), (known.in_words, words), (known.folded, lowered)):
        if searched:
            for hint, place in told:
                if hint in searched:
                    found.setdefault(place, []).append(hint)
    everywhere: list[tuple[Rule, list[str]]] = [(rule, []) for rule in known.everywhere if words]
    return everywhere + [(rules[place], hints) for place, hints in found.items()]


class _Hints:
    """The hints of some rules, each with its rule's place, by how they are looked for."""

    __slots__ = ("everywhere", "folded", "in_words", "plain", "rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        told = [(hint, place) for place, rule in enumerate(rules) for hint in rule.hints]
        self.rules = rules
        self.everywhere = [rule for rule in rules if not rule.hints]
        self.folded = [each for each in told if rules[each[1]].folded]
        self.in_words = [each for each in told if rules[each[1]].in_word]
        self.plain = [each for each in told if not rules[each[1]].folded and not rules[each[1]].in_word]


def _assigned(text: str) -> Iterator[Found]:
    """Yield values given to names of secrets, in the form of a shell, of a program, of JSON or of settings."""
    lowered = text.lower()
    if not any(hint in lowered for hint in NAME_HINTS):
        return
    for pattern in (_CELL, _TAG, _TOLD):
        for told in pattern.finditer(text):
            name, value = told["name"], told["secret"].rstrip()
            if names_secret(name) and _is_secret_value(name, value, "=", "" if pattern is _CELL else '"'):
                yield Found(kind_of_name(name), told.start("secret"), told.start("secret") + len(value), value)
    for sign in _SIGN.finditer(text):
        name = _name_before(text, sign.start())
        if not name or not names_secret(name):
            continue
        match = _VALUE.match(text, sign.start())
        if match is None:
            continue
        opened, start = match["open"], match.end("open")
        value = _quoted(text, start, opened) if opened[-1:] in ("'", '"', "`") and opened else None
        if value is None:
            value = _unquoted(match["secret"] or "")
        if len(value) >= SHORTEST_GIVEN and _is_secret_value(name, value, match["sign"], opened):
            yield Found(kind_of_name(name), start, start + len(value), value)


def _quoted(text: str, start: int, opened: str) -> str | None:
    """Return the value between a quote that ends at a place and the next such quote on its line, None without one."""
    end = text.find(opened, start, start + LONGEST_VALUE)
    while end > start and len(opened) == 1 and text[end - 1] == "\\" and text[end - 2 : end] != "\\\\":
        end = text.find(opened, end + 1, start + LONGEST_VALUE)
    value = text[start : max(end, start)]
    return value if value and "\n" not in value else None


def _unquoted(value: str) -> str:
    """Return a value without what follows it: the next setting, the end of a sentence, brackets that were open."""
    more = _NEXT_SETTING.search(value)
    value = (value[: more.start()] if more else value).rstrip(".:!?,;|")
    while value and value[-1] in _CLOSING and value.count(value[-1]) > value.count(_CLOSING[value[-1]]):
        value = value[:-1].rstrip(".:!?,;|")
    return "" if _CALLED.match(value) else value


def _name_before(text: str, at: int) -> str:
    """Return the name that ends before a place, quotes and blanks apart."""
    head = text[max(at - LONGEST_NAME, 0) : at].rstrip(" \t").rstrip("\"'`\\*")
    return head[len(head.rstrip(_NAME_SIGNS)) :]


def _is_secret_value(name: str, value: str, sign: str, quote: str) -> bool:
    mixed = len(value) >= SHORTEST and _DIGIT.search(value) is not None and _LETTER.search(value) is not None
    upper = name.isupper() and sign == "="
    if not (mixed or upper or quote) or not is_plausible(value):
        return False
    passes = "pass" in name.lower() or "pwd" in name.lower()
    if " " in value:
        return passes and not _PROSE.search(value)
    if mixed:
        return True
    if value.isdigit():
        return False
    if upper:
        return len(value) >= SHORTEST and not name.endswith("AUTH")
    return bool(quote) and (passes or len(value) >= 2 * SHORTEST)


def kind_of_name(name: str) -> str:
    """Return the kind of secret that a variable or field of this name holds."""
    lowered = name.lower()
    if "pass" in lowered or "pwd" in lowered:
        return "password"
    return "token" if "token" in lowered else "api-key" if "key" in lowered else "secret"


class Redactor:
    """Puts marks in the place of secrets, the same for the same secret, throughout one document.

    Args:
        rules: What is looked for.
        known: Secrets that are known beforehand: value -> kind.
        keep: Values that stay whatever they look like (ids of sessions and entries).
    """

    def __init__(
        self, rules: Sequence[Rule] = RULES, *, known: Mapping[str, str] | None = None, keep: Iterable[str] = ()
    ) -> None:
        self.rules = rules
        self.keep = frozenset(keep)
        self._kinds: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self._spread: dict[str, str] = {}
        # Names of fields, roles and other short texts come by the thousand.
        self._harmless: set[str] = set()
        for value, kind in (known or {}).items():
            self.add(value, kind)
            for form in base64_forms(value) if value not in self.keep else ():
                self._spread.setdefault(form, value)

    def add(self, value: str, kind: str) -> None:
        """Know a secret: it is replaced wherever it stands, also cut off at the end of a text."""
        if not value or value in self.keep:
            return
        self._kinds.setdefault(value, kind)
        self._spread.setdefault(value, value)
        for form in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
            if form != value:
                self._spread.setdefault(form, value)

    def learn(self, text: str) -> None:
        """Take in what can be recognised in a text, so that it is replaced elsewhere as well."""
        for found in self._search(text):
            self._learn(found.value, found.kind)

    def learn_value(self, value: Any) -> None:
        """Take in what can be recognised in the texts of a decoded JSON value."""
        for text, kind in _texts(value):
            if kind is None:
                self.learn(text)
            else:
                self._learn(text, kind)

    def learn_entry(self, entry: StoredEntry) -> None:
        """Take in what can be recognised in an entry."""
        self.learn_value(entry.fields)

    def text(self, text: str, where: str = "") -> str:
        """Return a text without its secrets.

        Args:
            text: Any text.
            where: What the report calls the place.
        """
        found = [each for each in self._find(text) if each.value not in self.keep]
        if not found:
            return text
        parts: list[str] = []
        at = 0
        for each in found:
            parts += (text[at : each.start], self._mark(each.value, each.kind, where))
            at = each.end
        parts.append(text[at:])
        return "".join(parts)

    def value(self, value: Any, where: str = "") -> Any:
        """Return a decoded JSON value without the secrets in its texts and names; unchanged values are not copied."""
        return self._redacted(value, where)

    def entry(self, entry: StoredEntry, where: str | None = None) -> StoredEntry:
        """Return an entry without secrets: same id, parent, type and time; the entry itself when it holds none.

        Args:
            entry: As stored.
            where: What the report calls the place; the entry's id by default.
        """
        place = entry.id if where is None else where
        payload = self._json(entry.payload, place)
        extra = self._json(entry.extra, place) if entry.extra else entry.extra
        if payload == entry.payload and extra == entry.extra:
            return entry
        return StoredEntry(entry.id, entry.parent_id, entry.type, entry.time_ms, payload, extra, entry.key)

    def report(self) -> tuple[Replacement, ...]:
        """Return what was replaced where, in the order it was met."""
        return tuple(Replacement(kind, mark, where, count) for (kind, mark, where), count in self._counts.items())

    @property
    def total(self) -> int:
        """How many places were replaced."""
        return sum(self._counts.values())

    def distinct_secrets(self) -> dict[str, str]:
        """Return the secrets that can be told from ordinary text anywhere: value -> kind. Never show it."""
        return {value: self._kinds[value] for value in dict.fromkeys(self._spread.values())}

    def mark_of(self, value: str) -> str:
        """Return the mark that stands for a secret, making it when there is none; nothing is counted."""
        mark = self._marks.get(value)
        if mark is None:
            whole = next((one for one in self._kinds if one != value and one.startswith(value)), None)
            if whole is not None and len(value) >= SHORTEST:
                return self._marks.setdefault(value, self.mark_of(whole))
            kind = self._kinds.setdefault(value, "secret")
            number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
            mark = self._marks[value] = f"{MARK}{kind}-{number}]"
        return mark

    def _learn(self, value: str, kind: str) -> None:
        if value in self.keep:
            return
        self._kinds.setdefault(value, kind)
        plain_word = value.isalpha() and value.islower()
        if len(value) >= (SHORTEST_WORD if plain_word else SHORTEST):
            self.add(value, kind)

    def _search(self, text: str) -> list[Found]:
        if text in self._harmless:
            return []
        found = find_secrets(text, self.rules)
        if not found and len(text) <= SHORT_TEXT and len(self._harmless) < SHORT_TEXTS:
            self._harmless.add(text)
        return found

    def _find(self, text: str) -> list[Found]:
        found = self._search(text)
        for each in found:
            self._learn(each.value, each.kind)
        for form, value in self._spread.items():
            at = text.find(form)
            while at >= 0:
                found.append(Found(self._kinds[value], at, at + len(form), value))
                at = text.find(form, at + len(form))
        if self._spread and len(text) >= SHORTEST_CUT:
            found += self._cut(text)
        return found if len(found) < 2 else merged(text, found)

    def _cut(self, text: str) -> Iterator[Found]:
        """Yield beginnings of known secrets at the end of the text, or before the dots that mark a cut."""
        forms = [(form, form[:SHORTEST_CUT], value) for form, value in self._spread.items() if len(form) > SHORTEST_CUT]
        forms = [each for each in forms if each[1] in text]
        for end in [match.start() for match in _CUT.finditer(text)] if forms else ():
            for form, beginning, value in forms:
                at = text.find(beginning, max(end - len(form), 0), end)
                while at >= 0:
                    if form.startswith(text[at:end]):
                        yield Found(self._kinds[value], at, end, text[at:end])
                        break
                    at = text.find(beginning, at + 1, end)

    def _mark(self, value: str, kind: str, where: str) -> str:
        self._kinds.setdefault(value, kind)
        mark = self.mark_of(value)
        told = mark[len(MARK) : -1].rpartition("-")[0]
        self._counts[told, mark, where] = self._counts.get((told, mark, where), 0) + 1
        return mark

    def _json(self, text: str, where: str) -> str:
        if len(text) < SHORTEST:
            return text
        value = json.loads(text)
        safe = self._redacted(value, where)
        return text if safe is value else dump(safe)

    def _redacted(self, value: Any, where: str) -> Any:
        """Return a decoded value without its secrets; goes through it without recursion, however deep it is nested."""
        done: list[Any] = []
        todo: list[tuple[Any, str | None, bool]] = [(value, None, False)]
        while todo:
            item, kind, inside = todo.pop()
            if inside:
                parts = done[len(done) - _parts(item) :]
                del done[len(done) - _parts(item) :]
                done.append(_rebuilt(item, parts))
            elif isinstance(item, str) and kind is not _PICTURE_DATA:
                whole = kind is not None and item not in self.keep
                done.append(self._mark(item, str(kind), where) if whole else self.text(item, where))
            elif isinstance(item, list | dict) and kind is not _PICTURE_DATA:
                todo.append((item, None, True))
                todo += [(part, told, False) for part, told in reversed(list(_inside(item, kind)))]
            else:
                done.append(item)
        return done[0]


def _parts(value: list[Any] | dict[str, Any]) -> int:
    return len(value) if isinstance(value, list) else 2 * len(value)


def _rebuilt(value: Any, parts: list[Any]) -> Any:
    """Return a list or object made of new parts, itself when they are its own."""
    if isinstance(value, list):
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    safe = dict(zip(parts[::2], parts[1::2], strict=True))
    same = all(new is old for new, old in zip(parts[::2], value, strict=True))
    return value if same and all(new is old for new, old in zip(parts[1::2], value.values(), strict=True)) else safe


def _inside(value: list[Any] | dict[str, Any], kind: str | None) -> Iterator[tuple[Any, str | None]]:
    """Yield the parts of a list or object, names included, each with the kind of secret it is as a whole."""
    above = kind[len(_UNDER) :] if kind is not None and kind.startswith(_UNDER) else ""
    if isinstance(value, list):
        for item in value:
            yield item, _kind_of_field(above, item) if above else kind
        return
    for name, item in value.items():
        yield name, None
        told = _PICTURE_DATA if _is_picture(value, name) else _kind_of_field(name, item)
        yield item, _kind_of_field(above, item) if told is None and above and name.lower() in _HOLDERS else told


def _texts(value: Any) -> Iterator[tuple[str, str | None]]:
    """Yield every text and name in a decoded JSON value, with the kind of secret it is as a whole (None: a text)."""
    todo: list[tuple[Any, str | None]] = [(value, None)]
    while todo:
        item, kind = todo.pop()
        if kind is _PICTURE_DATA:
            continue
        if isinstance(item, str):
            yield item, kind
        elif isinstance(item, list | dict):
            todo += reversed(list(_inside(item, kind)))


def _kind_of_field(name: str, value: object) -> str | None:
    """Return the kind of secret a field holds as a whole, None when its text is looked through as any other."""
    if isinstance(value, list | dict):
        return _UNDER + name if names_secret(name) else None
    if not isinstance(value, str) or not SHORTEST <= len(value) <= LONGEST_VALUE or "\n" in value:
        return None
    if name.lower() in ("cookie", "set-cookie") and "=" in value:
        return "cookie"
    if not names_secret(name):
        return None
    found = find_secrets(value)
    if found and found[0].value == value:
        return found[0].kind
    return kind_of_name(name) if _is_secret_value(name, value, "=", '"') else None


def _is_picture(block: Mapping[str, Any], name: str) -> bool:
    """Whether a field is the content of a picture, in which nothing is looked for."""
    return name == "data" and block.get("type") == PICTURE
