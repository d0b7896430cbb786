"""Nothing from a conversation can do anything to a terminal, and widths are what the terminal makes of them."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth, wcwidth

from pi_session_cli.render.safe import block, one_line
from pi_session_cli.render.screen import ASCII, UNICODE, Screen
from pi_session_cli.render.width import fit, is_narrow, pad, width

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
SCREEN = Screen(columns=40, colour=False, signs=UNICODE, now_ms=1_772_442_000_000)


def is_harmless(text: str) -> bool:
    """Whether a text has no control character, no direction mark and no lone surrogate."""
    bad = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF, 0x200B}
    return all(
        ord(char) >= 0x20
        and not 0x7F <= ord(char) <= 0x9F
        and not 0xD800 <= ord(char) <= 0xDFFF
        and not 0xE0000 <= ord(char) <= 0xE007F
        and ord(char) not in bad
        for char in text
    )


@given(ANY_TEXT)
def test_any_text_becomes_one_harmless_line(text: str) -> None:
    assert is_harmless(one_line(text))


@given(ANY_TEXT)
def test_any_text_becomes_harmless_lines_split_at_line_feeds_only(text: str) -> None:
    lines = list(block(text))
    assert all(map(is_harmless, lines))
    assert len(lines) == text.count("\n") + 1


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=50))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07after", "\\x1b]0;owned\\x07after"),
        ("real\rFAKE ROW", "real FAKE ROW"),
        ("two\nlines\tand tab", "two lines and tab"),
        ("c1 \x9b31mred", "c1 \\x9b31mred"),
        ("abc\u202edcba\u2069", "abc\\u202edcba\\u2069"),
        ("cut \ud83d end", "cut \\ud83d end"),
        ("tag\U000e0041", "tag\\ue0041"),
        ("a\u2028b\u2029c\u0085d", "a b c d"),
        ("👩\u200d💻 codes", "👩\u200d💻 codes"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
    ],
)
def test_strange_characters_are_shown_not_sent(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_characters_counted_without_wcwidth_are_counted_alike() -> None:
    for point in range(sys.maxunicode + 1):
        if is_narrow(point) and is_harmless(chr(point)) and point != 0xAD:
            assert wcwidth(chr(point)) == 1, hex(point)


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Zs"]), max_size=60), st.integers(1, 40))
def test_cut_text_fits_and_is_marked(text: str, cells: int) -> None:
    line = one_line(text)
    cut = fit(line, cells)
    assert width(cut) <= cells
    assert cut == line or cut.endswith("…")
    if width(line) <= cells:
        assert cut == line


@pytest.mark.parametrize(("text", "cells"), [("plain", 5), ("日本語", 6), ("łódź", 4), ("e\u0301", 1), ("🌊", 2)])
def test_width_is_counted_in_cells(text: str, cells: int) -> None:
    assert width(text) == cells == wcswidth(text)
    assert width(pad(text, 10)) == 10


def test_times_of_this_year_show_the_minute_others_the_day() -> None:
    assert SCREEN.when(1_772_442_000_000) == "Mar 02 09:00"
    assert SCREEN.when(1_700_000_000_000) == "2023-11-14"
    assert SCREEN.when(1_924_992_000_000) == "2031-01-01 !"
    assert SCREEN.when(None) == "unknown"
    assert SCREEN.when(10**18) == "unknown"
    assert SCREEN.full_time(1_924_992_000_000).endswith("(in the future)")


def test_the_ascii_signs_are_ascii_and_all_signs_are_as_wide_as_each_other() -> None:
    for name in ("leaf", "active", "fork", "last", "down"):
        assert len(getattr(ASCII, name)) == len(getattr(UNICODE, name)) == width(getattr(UNICODE, name))
        assert getattr(ASCII, name).isascii()
