"""The query language of the session picker: words, "phrases" and re:patterns over names, ids, texts and directories.

Pure: matches and orders what it is given. Searching inside messages at scale is the full-text index's task.

Source: Pi 1.6.0, session picker search.
"""

from __future__ import annotations

import re

from pi_sessions.errors import UsageError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Match tiers, best first. A tier outweighs every fuzzy score, so an exact hit anywhere beats scattered letters.
TIER_NAME = 0
TIER_TEXT = 1_000_000
TIER_FUZZY = 2_000_000
SORTS = ("recent", "relevance")
PATTERN_PREFIX = "re:"

_WORD_START = re.compile(r"[\s\-_./:]")
_LETTERS_DIGITS = re.compile(r"([a-z]+)([0-9]+)|([0-9]+)([a-z]+)")


class Token(Record):
    """One part of a query: kind `fuzzy` (a word) or `phrase`."""

    kind: str
    value: str


class Query(Record):
    """A parsed query.

    Attributes:
        tokens: All must match.
        pattern: If not None, this regular expression must match instead.
    """

    tokens: tuple[Token, ...] = ()
    pattern: re.Pattern[str] | None = None


class SessionText(Record):
    """What the search knows of a session.

    Attributes:
        name: None or blank when it has none.
        text: All user and assistant texts.
        modified_ms: Newest activity, Unix milliseconds.
    """

    id: str
    name: str | None
    cwd: str
    text: str
    modified_ms: int


def parse_query(query: str) -> Query:
    """Return the meaning of what a person typed.

    Args:
        query: Words, phrases in double quotes, or `re:` and a pattern. Empty: everything matches.

    Raises:
        UsageError: the pattern is empty or no regular expression (Pi finds nothing).

    Source: Pi 1.6.0, session picker search, except that an unclosed quote reaches to the end (Pi takes it for an
        ordinary character).
    """
    text = query.strip()
    if text.startswith(PATTERN_PREFIX):
        return Query(pattern=_compiled(text[len(PATTERN_PREFIX) :].strip()))
    tokens: list[Token] = []
    for place, part in enumerate(text.split('"')):
        if place % 2:
            tokens += [Token("phrase", part.strip())] if part.strip() else []
        else:
            tokens += [Token("fuzzy", word) for word in part.split()]
    return Query(tuple(tokens))


def match_session(session: SessionText, query: Query) -> float | None:
    """Return how well a session matches, lower is better; None when it does not.

    Source: Pi 1.6.0, session picker search: each token counts with the best field it matches; a token never matches
        across fields.
    """
    if query.pattern is not None:
        if session.name and query.pattern.search(session.name):
            return TIER_NAME
        fields = (session.id, session.text, session.cwd)
        return TIER_TEXT if any(query.pattern.search(field) for field in fields) else None
    total = 0.0
    for token in query.tokens:
        score = _phrase_score(session, token.value) if token.kind == "phrase" else _word_score(session, token.value)
        if score is None:
            return None
        total += score
    return total


def search_sessions(
    sessions: Iterable[SessionText], query: str, *, sort: str = "recent", named_only: bool = False
) -> list[SessionText]:
    """Return the sessions a query finds.

    Args:
        sessions: In the order they are listed.
        query: As a person typed it.
        sort: `recent` keeps the order; `relevance` puts the best match first, the newer first among equals.
        named_only: Only sessions with a name.

    Raises:
        UsageError: the query is a bad pattern.
        ValueError: an unknown sort.

    Source: Pi 1.6.0, session picker search.
    """
    if sort not in SORTS:
        raise ValueError(f"unknown sort {sort!r}")
    given = [session for session in sessions if not named_only or (session.name and session.name.strip())]
    parsed = parse_query(query)
    if not query.strip():
        return given
    scored = [(score, one) for one in given if (score := match_session(one, parsed)) is not None]
    if sort == "relevance":
        scored.sort(key=lambda found: (found[0], -found[1].modified_ms))
    return [one for _, one in scored]


def fuzzy_score(query: str, text: str) -> float | None:
    """Return how well the letters of a query appear in order in a text, lower is better; None when they do not.

    Source: Pi 1.6.0, fuzzy matching; `abc12` is also tried as `12abc` and the other way round.
    """
    wanted, lowered = query.lower(), text.lower()
    score = _ordered_score(wanted, lowered)
    if score is not None:
        return score
    swap = _LETTERS_DIGITS.fullmatch(wanted)
    if swap is None:
        return None
    parts = [part for part in swap.groups() if part is not None]
    swapped = _ordered_score(parts[1] + parts[0], lowered)
    return None if swapped is None else swapped + 5


def _compiled(pattern: str) -> re.Pattern[str]:
    if not pattern:
        raise UsageError("The pattern after re: is empty", hint="write a regular expression, for example re:lease|lock")
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise UsageError(
            f"re:{pattern} is no regular expression: {error}", hint="leave out re: to search for the words themselves"
        ) from error


def _one_line(text: str) -> str:
    return " ".join(text.lower().split())


def _word_score(session: SessionText, word: str) -> float | None:
    wanted = word.lower()
    name = (session.name or "").lower()
    if wanted in name:
        return TIER_NAME + (fuzzy_score(wanted, name) or 0)
    if any(wanted in field.lower() for field in (session.id, session.text, session.cwd)):
        return TIER_TEXT
    scores = [score for field in (name, session.cwd) if (score := fuzzy_score(word, field)) is not None]
    return TIER_FUZZY + min(scores) if scores else None


def _phrase_score(session: SessionText, phrase: str) -> float | None:
    wanted = _one_line(phrase)
    name = _one_line(session.name or "")
    if wanted in name:
        return TIER_NAME + (fuzzy_score(wanted, name) or 0)
    if wanted in session.id.lower() or wanted in _one_line(session.text) or wanted in _one_line(session.cwd):
        return TIER_TEXT
    return None


def _ordered_score(wanted: str, text: str) -> float | None:
    """Return the best score of scattered letters and of whole occurrences; both arguments in small letters."""
    if not wanted:
        return 0
    places: list[int] = []
    last = -1
    for letter in wanted:
        last = text.find(letter, last + 1)
        if last < 0:
            return None
        places.append(last)
    score = _places_score(text, places)
    start = text.find(wanted)
    while start >= 0:
        score = min(score, _places_score(text, range(start, start + len(wanted))))
        start = text.find(wanted, start + 1)
    return score - 100 if wanted == text else score


def _places_score(text: str, places: Sequence[int]) -> float:
    """Return the score of matched places: runs and word starts are good, gaps and late places bad."""
    score = 0.0
    last = -1
    run = 0
    for place in places:
        if last == place - 1:
            run += 1
            score -= run * 5
        else:
            run = 0
            score += (place - last - 1) * 2 if last >= 0 else 0
        if place == 0 or _WORD_START.match(text[place - 1]):
            score -= 10
        score += place * 0.1
        last = place
    return score
