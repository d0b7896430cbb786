"""Compactions and branch summaries in a session that is talked to: when they happen, what they keep, how they undo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pi_loop import ScriptedModel, tool
from pi_loop.direct import closed_after
from pi_loop.runner_types import NothingToCompactError
from pi_sessions.compaction import CutError, NoGainError
from pi_sessions.errors import CannotError, LeafMovedError
from pi_sessions.store import SessionStore
from pi_sessions.summaries import SummaryError
from tests.loop.runner_world import MODEL, World, asking, once, run, world

__all__ = ["run", "world"]
Run = Callable[[Callable[[], Awaitable[Any]]], Any]
SUMMARY = "write nothing but the summary"
SMALL = MODEL.model_copy(update={"context_window": 4096})
KEEP_LITTLE = {"compaction": {"keepRecentTokens": 10}}
LAST_REQUEST = "Do exactly this: (1) rename Foo to Bar, (2) keep the old name as an alias, (3) do NOT touch docs/."


def summing_up(text: str = "SUMMARY", other: str = "fine") -> tuple[Any, list[str]]:
    """Return a model that sums up with one text and answers everything else with another."""
    return asking(lambda _number, asked: text if SUMMARY in asked else other)


def fill(world: World, turns: int, words: int = 200) -> None:
    """Put questions and answers into the session."""
    for turn in range(turns):
        world.store.append_message(world.sid, {"role": "user", "content": f"Question {turn}: {'why ' * words}"})
        content = [{"type": "text", "text": f"Answer {turn}: {'so ' * words}"}]
        world.store.append_message(world.sid, {"role": "assistant", "content": content, "stopReason": "stop"})


def test_a_long_context_is_compacted_before_the_prompt(world: World, run: Run) -> None:
    fill(world, 12)
    stream, asked = summing_up()
    outcome = run(lambda: world.runner(stream, model=SMALL).prompt("and now?"))
    assert (outcome.status, outcome.compactions) == ("done", 1)
    assert SUMMARY in asked[0]
    assert "SUMMARY" in asked[-1]
    assert "Question 0" not in asked[-1]
    assert asked[-1].endswith("and now?")
    shape = world.shape()
    assert shape.index("compaction") < len(shape) - 2
    assert world.store.operations(world.sid)[0].command == "run"
    world.store.undo(world.sid)
    assert "compaction" not in world.shape()


def test_s14_the_last_request_survives_inside_a_long_turn(world: World, run: Run) -> None:
    world.use_case("s14-last-request-survives/one-long-turn.jsonl")
    stream, asked = summing_up()
    outcome = run(lambda: world.runner(stream, model=SMALL).prompt("go on"))
    assert outcome.compactions >= 1
    assert LAST_REQUEST in asked[-1]
    assert asked[-1].endswith("go on")


def test_s14_a_message_typed_while_the_summary_is_made_is_kept(world: World, run: Run) -> None:
    fill(world, 12)
    stream, asked = summing_up()

    async def work() -> None:
        runner = world.runner(stream, model=SMALL)
        runner.subscribe(once("compaction_start", lambda: runner.steer("one more thing")))
        await runner.prompt("and now?")

    run(work)
    assert any("one more thing" in text for text in asked[1:])
    assert world.shape().count("user") == 14


def test_a_context_that_grows_too_long_between_turns_is_compacted_there(world: World, run: Run) -> None:
    fill(world, 3)
    call = {"id": "c", "name": "big", "arguments": {}}

    @tool
    async def big() -> str:
        """A long result."""
        return "line of code\n" * 900

    requests: list[str] = []

    def answer(_number: int, text: str) -> Any:
        requests.append(text)
        return "SUMMARY" if SUMMARY in text else "done"

    quiet, _ = asking(answer)
    first = ScriptedModel([{"calls": [call]}])

    async def stream(model: Any, request: Any, options: Any) -> Any:
        source = first if first.steps_left and SUMMARY not in str(request.messages) else quiet
        given = source(model, request, options)
        async with closed_after(given):
            async for event in given:
                yield event

    outcome = run(lambda: world.runner(stream, model=SMALL, tools=[big]).prompt("look at the big file"))
    assert (outcome.status, outcome.compactions) == ("done", 1)
    shape = world.shape()
    assert shape[shape.index("toolResult") + 1] == "compaction"
    assert shape[-1] == "assistant"
    assert "look at the big file" in requests[-1]
    assert world.calls_have_one_result_each()


def test_nothing_to_cut_yet_does_not_switch_compaction_off(world: World, run: Run) -> None:
    @tool
    async def big() -> str:
        """A long result."""
        return "line of code\n" * 900

    quiet, _ = summing_up()
    calls = ScriptedModel([{"calls": [{"id": f"c{number}", "name": "big", "arguments": {}}]} for number in range(3)])

    async def stream(model: Any, request: Any, options: Any) -> Any:
        source = calls if calls.steps_left and SUMMARY not in str(request.messages) else quiet
        given = source(model, request, options)
        async with closed_after(given):
            async for event in given:
                yield event

    world.store.append_message(world.sid, {"role": "user", "content": "word " * 4000})
    outcome = run(lambda: world.runner(stream, model=SMALL, tools=[big], settings=KEEP_LITTLE).prompt("look"))
    assert outcome.status == "done"
    ends = [event for event in world.events if event.type == "compaction_end"]
    assert [event.error_message for event in ends[:1]] == ["There is nothing to compact"]
    assert outcome.compactions >= 1


def test_a_context_that_an_answer_fills_is_compacted_after_the_run(world: World, run: Run) -> None:
    fill(world, 2)
    stream, _ = summing_up(other="long " * 2500)
    outcome = run(lambda: world.runner(stream, model=SMALL).prompt("tell me all"))
    assert outcome.compactions == 1
    assert world.shape()[-1] == "compaction"
    assert outcome.leaf == world.store.leaf(world.sid)


def test_budgets_of_a_model_count_for_this_model_only(world: World, run: Run) -> None:
    fill(world, 4)
    budget = {"compaction": {"modelOverrides": {"scripted/demo": {"reserveTokens": 199_500, "keepRecentTokens": 50}}}}
    big = MODEL.model_copy(update={"context_window": 0})

    async def work() -> None:
        stream, _ = summing_up()
        assert (await world.runner(stream, model=big, settings=budget).prompt("one")).compactions == 0
        tight = MODEL.model_copy(update={"context_window": 1000})
        assert (await world.runner(stream, model=tight, settings=budget).prompt("two")).compactions >= 1

    run(work)


def test_a_manual_compaction_is_one_operation_that_undo_takes_back(world: World, run: Run) -> None:
    fill(world, 5)
    leaf = world.store.leaf(world.sid)
    stream, asked = summing_up()

    async def work() -> None:
        runner = world.runner(stream, settings=KEEP_LITTLE)
        done = await runner.compact(focus="the alias")
        assert done.result.tokens_after < done.result.tokens_before
        assert "Additional focus: the alias" in asked[0]
        assert world.store.leaf(world.sid) == done.entry_id
        await runner.prompt("afterwards")

    run(work)
    compact = next(op for op in world.store.operations(world.sid) if op.command == "compact")
    undone = world.store.undo(world.sid, op=compact.id)
    assert world.store.leaf(world.sid) == leaf
    (kept,) = undone.kept
    assert "afterwards" in str([entry.payload for entry in world.store.path(world.sid, kept.leaf)])


def test_chosen_entries_and_the_last_request_stay_word_for_word(world: World, run: Run) -> None:
    fill(world, 4)
    path = world.store.path(world.sid)
    world.store.append_message(world.sid, {"role": "user", "content": LAST_REQUEST})
    content = [{"type": "text", "text": "working " * 300}]
    world.store.append_message(world.sid, {"role": "assistant", "content": content, "stopReason": "stop"})
    stream, _ = summing_up()

    async def work() -> None:
        done = await world.runner(stream, settings=KEEP_LITTLE).compact(keep=[path[2].id])
        assert "Question 1" in done.result.summary
        assert LAST_REQUEST in done.result.summary
        assert "Question 0" not in done.result.summary

    run(work)


def test_a_person_can_choose_where_the_kept_part_begins(world: World, run: Run) -> None:
    fill(world, 4)
    path = world.store.path(world.sid)

    async def work() -> None:
        runner = world.runner(summing_up()[0])
        with pytest.raises(CutError):
            await runner.compact(first_kept="nowhere")
        done = await runner.compact(first_kept=path[6].id)
        assert done.result.first_kept_id == path[6].id

    run(work)
    assert world.roles() == ["compactionSummary", "user", "assistant"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [("long " * 5000, NoGainError), ({"error": "500 broken"}, SummaryError), ("  ", SummaryError)],
    ids=["does not shrink", "failed", "empty"],
)
def test_what_must_not_be_a_summary_is_not_stored(world: World, run: Run, answer: Any, error: type[Exception]) -> None:
    fill(world, 4)
    before = world.shape()

    async def work() -> None:
        stream, _ = asking(lambda _number, _text: answer)
        with pytest.raises(error):
            await world.runner(stream, settings={**KEEP_LITTLE, "retry": {"maxRetries": 0}}).compact()

    run(work)
    assert world.shape() == before
    assert world.events[-1].type == "compaction_end"
    assert world.events[-1].error_message


def test_nothing_to_compact_is_said(world: World, run: Run) -> None:
    async def work() -> None:
        with pytest.raises(NothingToCompactError):
            await world.runner(summing_up()[0]).compact()

    run(work)


def test_a_branch_that_is_rewound_while_the_summary_is_made_is_left_alone(world: World, run: Run) -> None:
    fill(world, 4)
    second = world.store.path(world.sid)[1].id

    def answer(_number: int, _text: str) -> str:
        with SessionStore.open(world.file) as other:
            other.rewind(world.sid, second)
        return "SUMMARY"

    async def work() -> None:
        with pytest.raises(LeafMovedError):
            await world.runner(asking(answer)[0], settings=KEEP_LITTLE).compact()

    run(work)
    assert world.store.leaf(world.sid) == second


def test_what_others_append_while_the_summary_is_made_stays(world: World, run: Run) -> None:
    fill(world, 4)

    def answer(_number: int, _text: str) -> str:
        with SessionStore.open(world.file) as other:
            other.append_message(world.sid, {"role": "user", "content": "meanwhile"})
        return "SUMMARY"

    run(lambda: world.runner(asking(answer)[0], settings=KEEP_LITTLE).compact())
    context = world.store.context(world.sid)
    assert context.messages[0].message["role"] == "compactionSummary"
    assert context.messages[-1].message["content"] == "meanwhile"


def test_a_compaction_is_aborted_without_a_trace(world: World, run: Run) -> None:
    fill(world, 4)

    async def work() -> None:
        runner = world.runner(ScriptedModel([{"text": "SUMM", "stall": True}]), settings=KEEP_LITTLE)

        async def abort_soon() -> None:
            async with anyio.create_task_group() as group:

                async def abort() -> None:
                    await anyio.sleep(0.02)
                    runner.abort()

                group.start_soon(abort)
                with pytest.raises(SummaryError):
                    await runner.compact()

        await abort_soon()
        assert runner.phase == "idle"

    run(work)
    assert "compaction" not in world.shape()
    assert world.events[-1].aborted


def test_s12_the_second_compaction_sees_what_the_first_kept(world: World, run: Run) -> None:
    world.use_case("s12-second-compaction/before-second-compaction.jsonl")
    stream, asked = summing_up()
    path = world.store.path(world.sid)
    last_question = next(entry for entry in reversed(path) if entry.role == "user")
    run(lambda: world.runner(stream).compact(first_kept=last_question.id))
    for token in ("SUMMARY-1", "Q-two", "A-two", "Q-three", "A-three"):
        assert token in asked[0]
    assert [one.message["role"] for one in world.store.context(world.sid).messages][:2] == ["compactionSummary", "user"]


def test_an_offline_compaction_asks_nobody(world: World, run: Run) -> None:
    fill(world, 6)
    stream, asked = summing_up()
    done = run(lambda: world.runner(stream, settings=KEEP_LITTLE).compact(offline=True))
    assert asked == []
    assert "## Goal" in done.result.summary
    assert done.result.tokens_after < done.result.tokens_before


def test_a_range_is_summed_up_and_its_surroundings_stay(world: World, run: Run) -> None:
    fill(world, 5)
    path = world.store.path(world.sid)
    before = [one.message for one in world.store.context(world.sid).messages]

    async def work() -> None:
        stream, asked = summing_up()
        done = await world.runner(stream).compact_range(path[2].id, path[5].id)
        assert "Question 1" in asked[0]
        assert "Question 3" not in asked[0]
        assert done.result.tokens_after < done.result.tokens_before

    run(work)
    after = [one.message for one in world.store.context(world.sid).messages]
    assert after[:2] == before[:2]
    assert after[3:] == before[6:]
    assert "SUMMARY" in after[2]["content"]
    world.store.undo(world.sid)
    assert [one.message for one in world.store.context(world.sid).messages] == before


# --- branch summaries and merges --------------------------------------------------------------------------------


def test_a_rewind_can_sum_up_what_it_leaves(world: World, run: Run) -> None:
    fill(world, 3)
    path = world.store.path(world.sid)
    stream, asked = summing_up()

    async def work() -> None:
        runner = world.runner(stream)
        moved = await runner.rewind(path[2].id, summarize=True, focus="why")
        assert moved.text is not None
        assert moved.text.startswith("Question 1")
        assert (moved.old_leaf, moved.new_leaf) == (path[-1].id, moved.entry_id)

    run(work)
    assert "Question 0" not in asked[0]
    assert "Additional focus: why" in asked[0]
    tip = world.store.path(world.sid)[-1]
    assert (tip.type, tip.parent_id, tip.fields["fromId"]) == ("branch_summary", path[1].id, path[-1].id)
    assert world.store.operations(world.sid)[0].command == "rewind"
    world.store.undo(world.sid)
    assert world.store.leaf(world.sid) == path[-1].id


def test_a_failed_branch_summary_leaves_the_leaf_where_it_is(world: World, run: Run) -> None:
    fill(world, 3)
    before = world.store.leaf(world.sid)

    async def work() -> None:
        stream, _ = asking(lambda _number, _text: {"error": "401 no"})
        with pytest.raises(SummaryError):
            await world.runner(stream).rewind(None, summarize=True)

    run(work)
    assert world.store.leaf(world.sid) == before
    assert len(world.store.operations(world.sid)) == 1


def test_a_rewind_without_a_summary_asks_nobody(world: World, run: Run) -> None:
    fill(world, 2)
    stream, asked = summing_up()
    moved = run(lambda: world.runner(stream).rewind(None))
    assert (moved.new_leaf, moved.entry_id, asked) == (None, None, [])


def test_a_switch_can_sum_up_the_branch_it_leaves(world: World, run: Run) -> None:
    fill(world, 1)
    world.store.create_branch(world.sid, "side")
    fill(world, 2)
    left = world.store.leaf(world.sid)

    async def work() -> None:
        runner = world.runner(summing_up()[0])
        moved = await runner.switch("side", summarize=True)
        assert (moved.branch, moved.old_leaf) == ("side", left)
        await runner.prompt("on the side")

    run(work)
    assert world.store.session(world.sid).branch == "side"
    assert world.shape()[2] == "branch_summary"
    assert world.shape()[-1] == "assistant"
    world.store.undo(world.sid)
    world.store.undo(world.sid)
    assert world.store.session(world.sid).branch == "main"
    assert world.shape("side") == ["user", "assistant"]


def test_a_merge_is_one_entry_that_names_its_origin_and_the_next_begins_there(world: World, run: Run) -> None:
    fill(world, 1)
    world.store.create_branch(world.sid, "attempt", switch=True)
    fill(world, 2)
    tried = world.store.path(world.sid)
    world.store.switch(world.sid, "main")
    stream, asked = summing_up()

    async def work() -> None:
        runner = world.runner(stream)
        await runner.merge("attempt")
        with pytest.raises(CannotError, match="nothing that is not here"):
            await runner.merge("attempt")
        with SessionStore.open(world.file) as other:
            other.append_message(world.sid, {"role": "user", "content": "newest try"}, branch="attempt")
        await runner.merge("attempt", offline=True)

    run(work)
    first, second = world.store.path(world.sid)[2:]
    assert (first.type, first.fields["fromId"]) == ("branch_summary", tried[-1].id)
    assert first.fields["summary"].startswith("Outcome of the branch attempt")
    assert first.fields["details"]["merged"] == {"branch": "attempt", "leaf": tried[-1].id, "base": tried[1].id}
    assert second.fields["details"]["merged"]["base"] == tried[-1].id
    assert "newest try" in second.fields["summary"]
    assert len(asked) == 1
    assert world.store.operations(world.sid)[0].command == "merge"


def test_picked_messages_are_merged_word_for_word(world: World, run: Run) -> None:
    fill(world, 1)
    world.store.create_branch(world.sid, "attempt", switch=True)
    fill(world, 2)
    tried = world.store.path(world.sid)
    world.store.switch(world.sid, "main")

    async def work() -> None:
        runner = world.runner(summing_up()[0])
        await runner.merge("attempt", picked=[tried[3].id])
        with pytest.raises(CannotError, match="not new"):
            await runner.merge("attempt", picked=[tried[0].id])

    run(work)
    entry = world.store.path(world.sid)[-1]
    assert (entry.type, entry.fields["customType"]) == ("custom_message", "merge")
    assert "Answer 0" in entry.fields["content"]
    assert entry.fields["details"]["merged"]["entries"] == [tried[3].id]


def test_a_stretch_is_summed_up_without_changing_anything(world: World, run: Run) -> None:
    fill(world, 4)
    path = world.store.path(world.sid)
    stream, asked = summing_up()

    async def work() -> None:
        runner = world.runner(stream)
        made = await runner.summarize(path[2].id, path[5].id)
        assert made is not None
        assert made.summary == "SUMMARY"
        with pytest.raises(CutError):
            await runner.summarize(path[5].id, path[2].id)

    run(work)
    assert "Question 1" in asked[0]
    assert "Question 0" not in asked[0]
    assert len(world.store.operations(world.sid)) == 1
