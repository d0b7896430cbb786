"""Branch summaries: what is left behind, what fits, what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from pi_sessions.branch_summary import (
    PREAMBLE,
    branch_budget,
    branch_summary_request,
    collect_for_branch_summary,
    prepare_branch_entries,
    run_branch_summary,
)
from pi_sessions.errors import EntryNotFoundError
from pi_sessions.file_operations import file_operations, file_section
from pi_sessions.summaries import SummaryAbortedError, SummaryError
from pi_sessions.tokens import BranchSummarySettings
from tests.sessions.pure_strategies import answer, chain, entry, result, user


def replying(**fields: Any) -> Any:
    message = {"role": "assistant", "content": [{"type": "text", "text": "told"}], "stopReason": "stop", **fields}
    return lambda prompt, reasoning: message


def test_left_behind_is_what_only_the_old_leaf_has() -> None:
    path = chain(user("a"), answer("b"), user("c"))
    other = entry("x", "e1", "message", message=user("x")[1]["message"])
    by_id = {one.id: one for one in (*path, other)}
    left = collect_for_branch_summary(by_id, "e2", "x")
    assert (left.ancestor, [one.id for one in left.entries]) == ("e1", ["e2"])
    assert [one.id for one in collect_for_branch_summary(by_id, "e2", None).entries] == ["e0", "e1", "e2"]
    assert collect_for_branch_summary(by_id, None, "x").entries == ()
    for old, new in (("nope", "x"), ("x", "nope")):
        with pytest.raises(EntryNotFoundError):
            collect_for_branch_summary(by_id, old, new)


def test_file_lists_cover_what_does_not_fit() -> None:
    path = chain(user("q" * 400), answer("", ("c1",)), result("c1", "r" * 4000), user("last"))
    plan = prepare_branch_entries(path, 1)
    assert [one.entry_id for one in plan.messages] == ["e3"]
    assert plan.file_ops.read == ("c1.py",)


def test_lists_of_earlier_summaries_are_carried_on_unless_a_hook_wrote_them() -> None:
    details = {"readFiles": ["r", "m", 5], "modifiedFiles": ["m"]}
    own = entry("a", None, "branch_summary", summary="S", details=details)
    hook = entry("b", None, "branch_summary", summary="S", details={"readFiles": ["h"]}, fromHook=True)
    operations = file_operations([], carried=(own, hook))
    assert (operations.read_only, operations.modified) == (("r",), ("m",))
    section = "\n\n<read-files>\nr\n</read-files>\n\n<modified-files>\nm\n</modified-files>"
    assert file_section(operations) == section


def test_paths_are_sorted_by_utf16_units() -> None:
    calls = [
        {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": path}} for path in ("\uffff", "😀", "a")
    ]
    assert file_operations([{"role": "assistant", "content": calls}]).read == ("a", "😀", "\uffff")


def test_the_summary_is_stored_with_preamble_lists_and_origin() -> None:
    plan = prepare_branch_entries(chain(user("q"), answer("", ("c1",))))
    made = run_branch_summary(plan, replying(usage={"input": 1}))
    assert made is not None
    assert made.fields("e1") == {
        "fromId": "e1",
        "summary": PREAMBLE + "told\n\n<read-files>\nc1.py\n</read-files>",
        "details": {"readFiles": ["c1.py"], "modifiedFiles": []},
        "usage": {"input": 1},
        "fromHook": False,
    }
    assert made.fields(None)["fromId"] == "root"
    empty = run_branch_summary(prepare_branch_entries(chain(user("q"))), replying(content=[]))
    assert empty is not None
    assert empty.summary == PREAMBLE


def test_nothing_to_sum_up_makes_no_summary_and_asks_nobody() -> None:
    def unasked(prompt: str, reasoning: str | None) -> Any:
        raise AssertionError("asked")

    assert run_branch_summary(prepare_branch_entries(chain(result("c", "r"))), unasked) is None


def test_failed_and_stopped_requests_make_no_summary() -> None:
    plan = prepare_branch_entries(chain(user("q")))
    with pytest.raises(SummaryAbortedError):
        run_branch_summary(plan, replying(stopReason="aborted"))
    with pytest.raises(SummaryError, match="overloaded"):
        run_branch_summary(plan, replying(stopReason="error", errorMessage="overloaded"))


def test_focus_is_added_or_replaces_the_instructions() -> None:
    plan = prepare_branch_entries(chain(user("q")))
    assert branch_summary_request(plan, focus="errors").endswith("\n\nAdditional focus: errors")
    assert branch_summary_request(plan, focus="Only errors.", replace=True) == (
        "<conversation>\n[User]: q\n</conversation>\n\nOnly errors."
    )


def test_the_budget_is_the_window_less_the_reserve() -> None:
    assert branch_budget(None, BranchSummarySettings()) == 128_000 - 16_384
    assert branch_budget(200_000, BranchSummarySettings(1000)) == 199_000
