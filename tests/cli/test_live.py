"""How a conversation is drawn as it happens: Markdown, line by line."""

import pytest

from pi_loop.events import MessageEnd, MessageUpdate, TextDelta
from pi_loop.runner_types import CompactionEnd, RetryStart
from pi_session_cli.render.live import LivePrinter
from pi_session_cli.render.markdown import MarkdownLines
from pi_session_cli.render.screen import UNICODE, Screen
from pi_sessions.messages import AssistantMessage
from tests.cli.launcher import Stream


def test_a_compaction_asked_for_in_vain_is_left_to_the_commands_error() -> None:
    out = Stream()
    printer = LivePrinter(out, Screen(80, True, UNICODE, 0), lambda: None)
    printer.hear(CompactionEnd(reason="manual", error_message="There is nothing to compact"))
    assert out.content() == b""
    printer.hear(CompactionEnd(reason="threshold", error_message="no"))
    assert printer.told == {"Not compacted: no"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# Title", "\x1b[1m# Title\x1b[0m"),
        ("- a `b`", "• a \x1b[36m`b`\x1b[0m"),
        ("  * a - b", "  • a - b"),
        ("2 + 3 = 5, 2 * 3 = 6, 5 - 3 = 2", "2 + 3 = 5, 2 * 3 = 6, 5 - 3 = 2"),
        ("**bold** - then", "\x1b[1m**bold**\x1b[0m - then"),
        ("* * *", "* * *"),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_markdown_is_styled_line_by_line(text: str, shown: str) -> None:
    assert MarkdownLines(Screen(80, True, UNICODE, 0)).line(text) == shown
    assert "\x1b" not in MarkdownLines(Screen(80, False, UNICODE, 0)).line(text)


def test_a_line_broken_at_the_width_gets_no_bullet_inside() -> None:
    out = Stream()
    printer = LivePrinter(out, Screen(20, True, UNICODE, 0), lambda: None)
    answer = AssistantMessage(content=[])
    for delta in ("nineteen characters - and then", " some more\n", "- a bullet\n"):
        inner = TextDelta(content_index=0, delta=delta, partial=answer)
        printer.hear(MessageUpdate(message=answer, assistant_message_event=inner))
    shown = out.content().decode().splitlines()
    assert " ".join(shown[:-1]) == "nineteen characters - and then some more"
    assert shown[-1] == "• a bullet"


def test_code_is_left_as_it_is_until_its_fence_ends() -> None:
    lines = MarkdownLines(Screen(80, True, UNICODE, 0))
    shown = [lines.line(text) for text in ("```py", "- `x`", "```", "- y")]
    assert shown[1] == "\x1b[36m- `x`\x1b[0m"
    assert shown[3] == "• y"


def test_what_went_wrong_and_what_to_do_are_two_sentences() -> None:
    out = Stream()
    printer = LivePrinter(out, Screen(80, False, UNICODE, 0), lambda: None)
    failed = "boom (HTTP 500)\nThe provider failed on its side; send it again in a moment."
    printer.hear(RetryStart(attempt=1, max_attempts=3, delay_ms=2000, error_message=failed))
    printer.error(failed)
    printer.hear(MessageEnd(message=AssistantMessage(content=[], stop_reason="length")))
    shown = " ".join(out.content().decode().split())
    told = "boom (HTTP 500). The provider failed on its side; send it again in a moment"
    assert shown.startswith(f"{told}; asking again in 2 s (1/3) {told}. The answer was cut off at the token limit")
