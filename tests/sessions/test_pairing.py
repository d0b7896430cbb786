"""Results find the call they answer by where they stand, also when ids come again."""

import json
from pathlib import Path
from typing import Any

from pi_sessions.formats.claude_code_writer import export_lines
from pi_sessions.formats.exports import read_export
from pi_sessions.formats.html.content import Calls
from pi_sessions.offline_summary import commands
from pi_sessions.pairing import results_by_call
from pi_sessions.store import SessionStore


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


def test_claude_code_is_told_the_call_on_the_results_own_branch(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        session = store.create_session()

        def add(message: dict[str, Any], parent: str | None) -> str:
            return store.append(session.id, {"type": "message", "message": message}, parent=parent).id

        def calling(command: str, parent: str) -> str:
            return add({**asks(command), "provider": "anthropic", "model": "claude"}, parent)

        left = calling("left", add(USER, None))
        # Left open on a branch that goes on with another call of the same id.
        right = calling("right", add(USER, left))
        add(result("right"), right)
        leaf = add(result("left"), left)
        export = read_export(store, store.session(session.id), leaf, whole_tree=True)
    records = [json.loads(line) for line in export_lines(export)]
    asked = {
        block["input"]["command"]: record["uuid"]
        for record in records
        for block in record.get("message", {}).get("content", ())
        if isinstance(block, dict) and block["type"] == "tool_use"
    }
    answered = {
        json.dumps(record["message"]["content"][0]["content"]): record["sourceToolAssistantUUID"]
        for record in records
        if "sourceToolAssistantUUID" in record
    }
    assert len(answered) == 2
    for word, uuid in asked.items():
        assert [caller for text, caller in answered.items() if word in text] == [uuid]
