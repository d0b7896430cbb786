"""What a person typed to search, as terms: how each is asked of the index, looked for by a scan, and marked in a text.

Pure. The query is always data: no character of it is syntax but white space, which parts terms, and a pair of double
quotes around a phrase. A word matches where a word begins with it; a phrase matches whole words in their order.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache

from pi_sessions.errors import UsageError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

# Scripts written without spaces between words: each of their characters is a token of its own.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
SNIPPET_BEFORE = 60
SNIPPET_CHARS = 220
SHORTEST_BEGINNING = 2
ESCAPE = "!"
FINAL_SIGMA = "ς"
# What may stand between the characters of a term that a text holds in parts: accents, marks of kana.
_MARKS_BETWEEN = "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u064b-\u065f\u3099\u309a\uff9e\uff9f]*"
LONGEST_MATCH_S = 5.0
# What JSON may write as an escape although it is ASCII, and white space, which a phrase matches loosely.
_LOOSE = frozenset("\"\\/<>&'")
_PARTS = re.compile(r'(?:(?<=\s)|^)"(?P<phrase>[^"]*[^"\s][^"]*)(?:"|$)|(?P<word>\S+)')
_TOKEN = re.compile(r"[^\W_]")
_not_ascii = re.compile(r"[^\x00-\x7f]+")
_unspaced = re.compile(f"[{UNSPACED}]")
# Dashes, quotation marks, arrows, lines of boxes, signs and emoji have one form only.
SIGNS = "\u2010-\u2027\u2030-\u205e\u2190-\u2199\u2500-\u27bf\U0001f300-\U0001faff"
_has_forms = re.compile(f"[^\x00-\x7f{SIGNS}]")
_ASCII = bytes(range(128))


class Term(Record):
    """One part of a query; all parts must match.

    Attributes:
        text: As it was typed, quotes apart.
        phrase: It stood in quotes.
    """

    text: str
    phrase: bool = False

    @property
    def folded(self) -> str:
        """The term as texts are compared with it."""
        return " ".join(loose(self.text).split())

    @property
    def is_plain(self) -> bool:
        """Whether the index alone can say where the term is, its text need not be looked at."""
        bare = self.text.replace(" ", "") if self.phrase else self.text
        return bare.isalnum() and not _unspaced.search(bare)

    @property
    def has_one_form(self) -> bool:
        """Whether it is written in one way only: Chinese characters have no case, no accents and no widths."""
        return all("\u3400" <= char <= "\u9fff" for char in self.text)

    @property
    def index_query(self) -> str | None:
        """The term in the language of the index, None when it holds nothing that is indexed."""
        if not _TOKEN.search(self.text):
            return None
        quoted = '"' + indexed_form(self.text).replace('"', '""') + '"'
        last = self.text[-1]
        ends_in_word = _TOKEN.match(last) and not _unspaced.match(last)
        begins = not self.phrase and ends_in_word and len(self.text) >= SHORTEST_BEGINNING
        return quoted + (" *" if begins else "")

    @property
    def like_patterns(self) -> tuple[str, ...]:
        """Patterns for LIKE (with `ESCAPE`) one of which matches the JSON text of every entry that has the term."""
        plain = "".join(_like(char) for char in self.text)
        if self.text.isascii():
            return (f"%{plain}%",)
        escaped = "".join(_like(char) if char.isascii() else _like_escaped(char) for char in self.text)
        return (f"%{plain}%", f"%{escaped}%")


def parse_terms(query: str) -> tuple[Term, ...]:
    """Return the terms of a query.

    Raises:
        UsageError: there are none.
    """
    terms = []
    for part in _PARTS.finditer(query):
        phrase = part["phrase"]
        if phrase is None:
            terms.append(Term(part["word"]))
        else:
            terms.append(Term(phrase.strip(), True))
    if not terms:
        raise UsageError("The search is empty", hint='say what to look for: pi-session search "lease lost"')
    return tuple(terms)


def compile_pattern(pattern: str) -> TimedPattern:
    """Return the regular expression a person typed; case is ignored.

    Raises:
        UsageError: it is empty or none.
    """
    if not pattern:
        raise UsageError("The pattern is empty", hint="say what to look for: pi-session search --regex 'lease|lock'")
    try:
        return TimedPattern(re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    except re.error as error:
        raise UsageError(
            f"{pattern} is no regular expression: {error}", hint="leave out --regex to search for the words themselves"
        ) from error


class _Folding(dict[int, str]):
    """Maps each character to its small form without accents, one to one, so that places stay the same.

    Args:
        form: How unicodedata takes a character apart.
    """

    def __init__(self, form: Literal["NFD", "NFKD"]) -> None:
        super().__init__()
        self.form = form

    def __missing__(self, point: int) -> str:
        import unicodedata

        char = chr(point)
        small = unicodedata.normalize(self.form, char)[0].lower() if char != FINAL_SIGMA else "σ"
        self[point] = folded = small if len(small) == 1 and not 0xAC00 <= point <= 0xD7A3 else char
        return folded


_folding = _Folding("NFKD")
_index_folding = _Folding("NFD")


def fold(text: str) -> str:
    """Return a text in small letters without accents; every character keeps its place.

    Only what is not ASCII is looked up: looking up every character of a text took ten times as long, which was half the
    time of indexing.
    """
    return text.lower() if text.isascii() else _not_ascii.sub(_fold_run, text).lower()


def _fold_run(found: re.Match[str]) -> str:
    return found[0].translate(_folding)


def loose(text: str) -> str:
    """Return a text in small letters as it is compared: accents, width and the ways to write a character aside."""
    return text.lower() if text.isascii() else _not_ascii.sub(lambda found: _loose_run(found[0]), text).lower()


@lru_cache(maxsize=4096)
def _loose_run(run: str) -> str:
    import unicodedata

    apart = unicodedata.normalize("NFKD", run).lower().replace(FINAL_SIGMA, "σ")
    return unicodedata.normalize("NFC", "".join([char for char in apart if not unicodedata.combining(char)]))


def indexed_form(text: str) -> str:
    """Return a text as it is indexed: without accents, characters of unspaced scripts apart.

    ASCII stays as it is, since the index makes it small itself. Most other texts hold dashes and arrows only, and are
    told by what is left without the ASCII in a fifth of the time.
    """
    if text.isascii():
        return text
    beside = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
    return _not_ascii.sub(lambda found: _indexed_run(found[0]), text) if _has_forms.search(beside) else text


@lru_cache(maxsize=4096)
def _indexed_run(run: str) -> str:
    return _unspaced.sub(r" \g<0> ", run.translate(_index_folding))


def contains(text: str, terms: Sequence[Term]) -> bool:
    """Whether a text has all terms anywhere, inside words too; case, accents and the kind of white space aside."""
    folded = loose(text)
    line: str | None = None
    for term in terms:
        wanted = term.folded
        if wanted in folded:
            continue
        if " " not in wanted:
            return False
        line = " ".join(folded.split()) if line is None else line
        if wanted not in line:
            return False
    return True


def marker(terms: Sequence[Term]) -> re.Pattern[str]:
    """Return a pattern that finds the terms in a folded text, the longer ones first."""
    wanted = sorted({term.folded for term in terms if term.folded}, key=len, reverse=True)
    return re.compile("|".join(map(_marked, wanted)) or r"(?!)")


def _marked(wanted: str) -> str:
    return "".join(r"\s+" if char == " " else re.escape(char) + _MARKS_BETWEEN for char in wanted)


class TimedPattern:
    """A regular expression a person typed, which may take longer than anybody lives: it is stopped.

    Time is limited where signals arrive, in a program's main thread.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match.

        Raises:
            UsageError: that took longer than `LONGEST_MATCH_S`.
        """
        with self._limited():
            return self._pattern.search(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Return all matches; raises like `search`."""
        with self._limited():
            return iter(list(self._pattern.finditer(text)))

    @contextmanager
    def _limited(self) -> Iterator[None]:
        import signal
        import threading

        main = threading.current_thread() is threading.main_thread()
        if not main or not hasattr(signal, "setitimer") or signal.getitimer(signal.ITIMER_REAL)[0]:
            yield
            return
        before = signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, LONGEST_MATCH_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _stop(self, _number: int, _frame: object) -> None:
        raise UsageError(
            f"The expression took more than {LONGEST_MATCH_S:g} seconds for one text",
            hint="avoid repeats inside repeats, such as (a+)+, or search for the words themselves",
        )


def fts_terms(expression: str) -> tuple[Term, ...]:
    """Return the words of an index expression, to mark them in what it finds."""
    words = re.findall(r"[^\W_][\w]*", expression)
    return tuple(
        Term(word) for word in words if word not in ("AND", "OR", "NOT", "NEAR", "text") and not word.isdigit()
    )


def snippet(
    text: str, pattern: re.Pattern[str] | TimedPattern, *, folds: bool = True
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the part of a text around its first match on one line, and the places of all matches in that part.

    Args:
        text: Whole text of an entry.
        pattern: What to mark.
        folds: The pattern is for the folded text.
    """
    first = pattern.search(fold(text) if folds else text)
    start = max(first.start() - SNIPPET_BEFORE, 0) if first else 0
    if start:
        blank = text.find(" ", start, first.start() if first else start)
        start = blank + 1 if blank >= 0 else start
    # A match may be longer than what is shown: then its beginning is.
    piece = text[start : start + 2 * SNIPPET_CHARS]
    line = " ".join(piece.split())[:SNIPPET_CHARS]
    head = "…" if start else ""
    tail = "…" if start + len(piece) < len(text) or len(" ".join(piece.split())) > SNIPPET_CHARS else ""
    looked_at = fold(line) if folds else line
    shift = len(head)
    places = tuple((m.start() + shift, m.end() + shift) for m in pattern.finditer(looked_at) if m.end() > m.start())
    return head + line + tail, places


def _like(char: str) -> str:
    if char in _LOOSE or char.isspace() or not char.isprintable():
        return "%"
    if char in ("%", "_", ESCAPE):
        return ESCAPE + char
    # Characters of Chinese are written in one way only; all others may come in parts, or in another width.
    return char if char.isascii() or "\u3400" <= char <= "\u9fff" else "%"


def _like_escaped(char: str) -> str:
    if _like(char) == "%":
        return "%"
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
