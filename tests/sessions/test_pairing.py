"""Results find the call they answer by where they stand, also when ids come again."""

from typing import Any

from pi_sessions.formats.html.content import Calls
from pi_sessions.offline_summary import commands
from pi_sessions.pairing import results_by_call


def asks(*commands: str, id: str = "call_0") -> dict[str, Any]:
    content = [{"type": "toolCall", "id": id, "name": "bash", "arguments": {"command": each}} for each in commands]
    return {"role": "assistant", "content": content, "stopReason": "toolUse"}


def result(text: str, *, failed: bool = False, id: str = "call_0") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": id, "toolName": "bash", "content": content, "isError": failed}


USER = {"role": "user", "content": "go"}


def test_a_result_belongs_to_the_nearest_call_before_it() -> None:
    messages = [USER, asks("one"), result("1"), None, USER, asks("two"), result("2"), {"role": "system"}, result("3")]
    assert results_by_call(messages) == {(1, 0): 2, (5, 0): 6}


def test_calls_of_one_answer_that_share_an_id_are_answered_in_their_order() -> None:
    assert results_by_call([asks("one", "two"), result("1"), result("2")]) == {(0, 0): 1, (0, 1): 2}


def test_an_offline_summary_says_which_of_two_commands_failed() -> None:
    messages = [asks("make"), result("no rule", failed=True), USER, asks("make test"), result("ok")]
    assert commands(messages) == ["`make` (failed)", "`make test`"]


def test_the_page_tells_calls_with_one_id_apart_on_each_branch() -> None:
    trunk = Calls()
    trunk.begin()
    trunk.met({"id": "c", "name": "bash"}, "first")
    assert trunk.of("c")[1] == "first"
    left, right = Calls(trunk), Calls(trunk)
    left.begin()
    left.met({"id": "c", "name": "bash"}, "second")
    left.met({"id": "c", "name": "bash"}, "third")
    assert [left.of("c")[1] for _ in range(3)] == ["second", "third", "third"]
    assert right.of("c")[1] == "first"
    assert right.of("unknown") == ("", "", "")
