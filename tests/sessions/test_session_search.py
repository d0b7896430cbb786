"""The picker's query language."""

from __future__ import annotations

import pytest

from pi_sessions.errors import UsageError
from pi_sessions.session_search import SessionText, Token, fuzzy_score, parse_query, search_sessions

SESSIONS = [
    SessionText("01", "Fix lease", "/home/shop", "the lease was lost", 3),
    SessionText("02", None, "/home/lease-tool", "NODE  cve\nlist", 5),
    SessionText("03", "L e a s e", "/srv", "nothing", 4),
]


def found(query: str, **options: object) -> list[str]:
    return [one.id for one in search_sessions(SESSIONS, query, **options)]  # type: ignore[arg-type]


def test_words_match_anywhere_and_names_also_by_letters() -> None:
    assert found("lease") == ["01", "02", "03"]
    assert found("lease", sort="relevance") == ["01", "02", "03"]
    assert found("lease", named_only=True) == ["01", "03"]
    assert found("fix LOST") == ["01"]
    assert found("") == ["01", "02", "03"]


def test_phrases_ignore_white_space_and_an_unclosed_quote_reaches_to_the_end() -> None:
    assert found('"node cve list"') == ["02"]
    assert found('"node cve') == ["02"]
    assert parse_query('a "b c" d').tokens == (Token("fuzzy", "a"), Token("phrase", "b c"), Token("fuzzy", "d"))
    assert parse_query('""').tokens == ()


def test_patterns_match_and_bad_ones_are_explained() -> None:
    assert found("re:^node") == ["02"]
    assert found("re:lost|srv", sort="relevance") == ["03", "01"]
    for bad in ("re:", "re:("):
        with pytest.raises(UsageError):
            found(bad)
    with pytest.raises(ValueError, match="unknown sort"):
        found("x", sort="best")


def test_letters_in_order_score_better_in_runs_and_at_word_starts() -> None:
    run, scattered = fuzzy_score("sh", "home shop"), fuzzy_score("sh", "basics hard")
    assert run is not None
    assert scattered is not None
    assert run < scattered
    assert fuzzy_score("12ab", "ab12") is not None
    assert fuzzy_score("xyz", "ab12") is None
