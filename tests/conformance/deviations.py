"""Where our results differ from recorded Pi 1.6.0 on purpose, and exactly what they are instead.

`RULES` are decisions that meet any case; `ROWS` are single steps of the bundled cases. Both say what Pi does, what we
do and why that is better for the person, and both are checked: a step passes only with the result written down here,
and a row that no longer differs from Pi is reported as a failure.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from tests.conformance import session_fact_rules as facts
from tests.conformance import session_rules as rules
from tests.conformance.session_expected import (
    GONE,
    LEGACY_IDS,
    LEGACY_MESSAGES,
    Expect,
    answer,
    cut_at_the_question,
    every_file_listed,
    exactly,
    legacy_file,
    patched,
    user,
    whole_session,
    with_own_ids,
)
from tests.conformance.session_replay import Replay
from tests.conformance.session_rules import NOTHING, Rule

Json = Any


@dataclass(frozen=True)
class Row:
    """One step, or several that differ in the same way.

    Attributes:
        case, steps: Which steps of which case, counted from 1.
        pi: What Pi does.
        ours: What we do.
        why: Why that is better for the person.
        expect: Turns Pi's result into what ours must be.
    """

    case: str
    steps: tuple[int, ...]
    pi: str
    ours: str
    why: str
    expect: Expect


def deviation_for(replay: Replay, number: int, step: Json, ours: Json) -> tuple[Row | Rule, Json] | None:
    """Return the row or rule that covers a step, and what our result must be; None when none does."""
    for row in ROWS:
        if row.case == replay.case["id"] and number in row.steps:
            return row, row.expect(copy.deepcopy(step.get("result")))
    for rule in RULES:
        expected = rule.expect(replay, step, ours)
        if expected is not None:
            return rule, None if expected is NOTHING else expected
    return None


RULES = (
    Rule(
        "source untouched",
        "opening, copying or exporting a file migrates it, mends its end or appends to it",
        "the source keeps its bytes; what is new is in the store",
        "an import that goes wrong cannot destroy the only copy",
        rules.source_untouched,
    ),
    Rule(
        "saved at once",
        "nothing is saved before the first user or assistant message",
        "every append is saved at once, and so is an empty fork with its origin",
        "settings, names and shell output survive when the process ends early",
        rules.saved_at_once,
    ),
    Rule(
        "unsaved clone",
        "a session without a message cannot be cloned",
        "it is cloned like any other",
        "there is no unsaved state to know about",
        rules.unsaved_can_be_cloned,
    ),
    Rule(
        "directory itself",
        "sessions of a directory lie in a folder named after it, and different directories can get the same name",
        "sessions are found by the directory itself",
        "`/a/b` and `/a-b` are never mixed up",
        rules.directory_itself,
    ),
    Rule(
        "own command line",
        "options of the pi command",
        "they are not ours; our command line has tests of its own",
        "a check of use only to a product with the same options",
        rules.not_pis_command,
    ),
    Rule(
        "own command line, files",
        "the pi command has written a page",
        "it was not run, so there is none",
        "as above",
        rules.made_by_pis_command,
    ),
    Rule(
        "no page yet",
        "writes an HTML page, and migrates the source in place meanwhile",
        "refused, nothing is written",
        "said plainly instead of half done",
        rules.no_html_page,
    ),
    Rule(
        "unknown entry",
        "an unknown entry id silently stands for the newest entry, for nothing or for everything",
        "refused: no such entry",
        "a mistyped id is noticed",
        rules.unknown_entry,
    ),
    Rule(
        "estimate after compaction",
        "context use is unknown after a compaction until the next answer",
        "an estimate, marked as one",
        "a person sees at once what the compaction has freed",
        rules.estimate_after_compaction,
    ),
    Rule(
        "always returns",
        "never returns on a cycle, memory grows until the process dies",
        "the path ends where it would repeat itself",
        "one damaged line does not cost the session",
        rules.always_returns,
    ),
    Rule(
        "foreign file",
        "a message is refused and dropped when the file system refuses the session's file",
        "the message is stored",
        "what was said is kept whatever lies in the folder",
        rules.foreign_file_does_not_matter,
    ),
    Rule(
        "other handle's entries",
        "two handles on one session know only their own appends",
        "both see all entries, each with its own leaf",
        "nothing another program has added is invisible",
        facts.other_handles_entries,
    ),
    Rule(
        "nothing to sum up",
        'the text "No content to summarize" is stored as a summary and sent to the model',
        "the leaf moves without a summary",
        "no words that nobody said",
        rules.nothing_to_sum_up,
    ),
    Rule(
        "no entries without id",
        "numbers, texts, arrays, `true` and `{}` on a line of their own become entries without id",
        "skipped and reported",
        "every entry can be named",
        rules.no_entries_without_id,
    ),
    Rule(
        "all shows all",
        "the filter `all` hides usage entries and answers that only call tools",
        "every entry is shown",
        "the word means what it says",
        rules.all_shows_all,
    ),
    Rule(
        "export carries facts",
        "labels are written again and the last becomes the leaf; name, parent and unknown header fields get lost",
        "labels, name, parent and header fields are carried beside the path, whose leaf stays the leaf",
        "a copy says everything its original said, and Pi goes on where the person was",
        facts.facts_in_exports,
    ),
    Rule(
        "labels of a copy",
        "a copy takes labels out of the path and puts them behind its end",
        "the copy shares the original's entries, and sees labels where they were set",
        "nothing is copied, and the leaf is the chosen entry",
        facts.labels_of_a_copy,
    ),
    Rule(
        "nothing to export",
        "writes a file with a header alone",
        "refused: nothing to export",
        "no empty file that looks like a saved conversation",
        facts.nothing_to_export,
    ),
    Rule(
        "settings in an old header",
        "the model and thinking level in a version-1 header are ignored",
        "they are the first settings of the conversation",
        "the conversation goes on with the settings it was begun with",
        facts.header_settings,
    ),
    Rule(
        "newest activity",
        "the newest file time decides which session is the most recent",
        "the newest message decides, as in the list",
        "copying or touching a file changes nothing",
        rules.newest_activity,
    ),
    Rule(
        "imported once",
        "importing a file again makes another session with the same id",
        "the session that is there is found",
        "importing again adds nothing",
        rules.imported_once,
    ),
    Rule(
        "import without directory",
        "refused when the conversation's directory no longer exists",
        "imported",
        "a moved folder loses nothing; the directory matters only when work goes on",
        rules.import_without_directory,
    ),
    Rule(
        "no stray copies",
        "importing again and a refused import leave copies in the session folder",
        "only what was imported is there",
        "nothing to clean up",
        rules.no_stray_copies,
    ),
    Rule(
        "nothing to open",
        "a missing or empty file silently becomes a new session",
        "refused, nothing comes to be in its place",
        "a mistyped path is noticed",
        rules.nothing_to_open,
    ),
    Rule(
        "mark skipped",
        "a file with a byte order mark is refused",
        "the mark is left out and reported",
        "a file that an editor has saved still opens",
        rules.mark_skipped,
    ),
    Rule(
        "long header",
        "a session whose header is longer than 1 MiB is not found by its id",
        "found",
        "ids always work",
        rules.long_header_found,
    ),
    Rule(
        "files of all left behind",
        "files touched by messages that did not fit the budget are missing from a branch summary's lists",
        "the lists cover all entries left behind",
        "no touched file is forgotten",
        rules.files_of_all_left_behind,
    ),
    Rule(
        "facts are nothing new",
        "a label after a compaction makes compacting again possible",
        "nothing to compact",
        "no request is spent on a summary of a summary",
        rules.facts_are_nothing_new,
    ),
    Rule(
        "aborted is no summary",
        "an aborted answer becomes a checkpoint",
        "refused, nothing changes",
        "half a summary does not replace the history",
        rules.aborted_is_no_summary,
    ),
    Rule(
        "true count",
        "the count of cut characters is one short when the cut moves off a surrogate pair",
        "the true count",
        "the number means what it says",
        rules.true_count_of_cut,
    ),
    Rule(
        "unclosed quote",
        "a quote that is not closed is an ordinary character, so the search finds nothing",
        "a phrase to the end",
        "results come while one is still typing",
        rules.unclosed_quote,
    ),
)


_SECOND_CHOICE = (
    "the first writer's branch stays the session's own; the second writer is told that it has one of its own"
)

ROWS: tuple[Row, ...] = (
    Row(
        "persist-existing-target-file",
        (4,),
        "the message is gone",
        "the message is there",
        "what was said is kept whatever lies in the folder",
        patched(
            {
                "entry_count": 1,
                "distinct_ids": 1,
                "leaf": "10000001",
                "branch_leaf_to_root": ["10000001"],
                "tree/roots": ["10000001"],
                "context_entries": ["10000001"],
                "context/messages": [user("10000001", "hello", 1772359203000)],
            }
        ),
    ),
    Row(
        "persist-file-deleted-while-open",
        (6,),
        "the append makes a file without a header",
        "the session is whole: header and three entries",
        "deleting a file from outside costs nothing",
        whole_session,
    ),
    Row(
        "persist-file-deleted-while-open",
        (7,),
        "the session can no longer be opened",
        "it opens with three entries",
        "deleting a file from outside costs nothing",
        exactly({"id": "sess-0001", "cwd": "/proj/demo", "entries": 3}),
    ),
    Row(
        "persist-two-writers",
        (13,),
        "reopening silently takes the branch of whoever wrote last",
        "the stored leaf is taken",
        _SECOND_CHOICE,
        patched(
            {
                "leaf": "10000005",
                "branch_leaf_to_root/0": "10000005",
                "branch_leaf_to_root/1": "10000003",
                "context_entries/2": "10000003",
                "context_entries/3": "10000005",
                "context/messages/2": user("10000003", "from a", 1772359206000),
                "context/messages/3": answer("10000005", "a answered", 1772359208000),
            }
        ),
    ),
    Row(
        "tree-navigate-summary-of-toolresults-only",
        (7,),
        "the words of a summary that nobody wrote are in the context",
        "the leaf moved without a summary",
        "no words that nobody said",
        patched(
            {
                "entry_count": 4,
                "distinct_ids": 4,
                "leaf": "10000002",
                "branch_leaf_to_root/0": GONE,
                "tree/children/10000002": ["10000003"],
                "context_entries/2": GONE,
                "context/messages/2": GONE,
            }
        ),
    ),
    Row(
        "forkfrom-legacy",
        (2,),
        "a version-1 file is copied without ids; only its last message is in the context",
        "migrated first: two entries, both in the context",
        "no history is lost",
        patched(
            {
                "distinct_ids": 2,
                "leaf": LEGACY_IDS[1],
                "branch_leaf_to_root": [*LEGACY_IDS[::-1]],
                "tree": {"roots": [LEGACY_IDS[0]], "children": {LEGACY_IDS[0]: [LEGACY_IDS[1]]}},
                "context_entries": [*LEGACY_IDS],
                "context/messages": [*LEGACY_MESSAGES],
            }
        ),
    ),
    Row(
        "forkfrom-legacy",
        (4,),
        "the next message has no parent, the tree shows `undefined`",
        "it is a child of the last entry",
        "no history is lost",
        patched(
            {
                "distinct_ids": 3,
                "branch_leaf_to_root": ["10000001", *LEGACY_IDS[::-1]],
                "tree": {
                    "roots": [LEGACY_IDS[0]],
                    "children": {LEGACY_IDS[0]: [LEGACY_IDS[1]], LEGACY_IDS[1]: ["10000001"]},
                },
                "context_entries": [*LEGACY_IDS, "10000001"],
                "context/model": {"provider": "p", "modelId": "m"},
                "context/messages": [*LEGACY_MESSAGES, user("10000001", "continued", 1772359203000)],
            }
        ),
    ),
    Row(
        "forkfrom-legacy",
        (5,),
        "the copied lines have neither ids nor parents",
        "each has both",
        "no history is lost",
        legacy_file,
    ),
    Row(
        "compaction-run-failures",
        (17,),
        "the leaf is the checkpoint made of an aborted answer",
        "the leaf is where it was",
        "half a summary does not replace the history",
        exactly({"leaf": "10000006", "type": "message"}),
    ),
    Row(
        "compaction-edits",
        (18, 19),
        "the kept part begins at an omitted answer, so the turn before it is called split and costs a second request",
        "the cut is at the question after it",
        "one request instead of two, and nothing is told in halves",
        cut_at_the_question,
    ),
    Row(
        "migrate-no-version-with-ids",
        (2,),
        "existing ids are replaced, branches flattened; the label and the kept id point nowhere",
        "ids and parents that are there are kept",
        "branches, labels and compactions keep their meaning",
        patched(
            {
                "leaf": "e",
                "branch_leaf_to_root": ["e", "d", "c", "a"],
                "tree": {"roots": ["a"], "children": {"a": ["b", "c"], "c": ["d"], "d": ["e"]}},
                "context_entries": ["e"],
                "context/messages/0/entry": "e",
            }
        ),
    ),
    Row(
        "migrate-version-odd",
        (5, 8, 11, 20),
        "version 0, null, -1 or true: existing ids are replaced, branches flattened",
        "ids are kept; the seven files are one session, so the header is the first one's",
        "branches, labels and compactions keep their meaning",
        with_own_ids,
    ),
    Row(
        "migrate-version-odd",
        (14, 17),
        "each file is a session of its own",
        "the same entries under the same session id are the same session, whose header is the first one's",
        "importing again adds nothing",
        patched({"header/version": "3"}),
    ),
    Row(
        "damaged-bad-line",
        (2,),
        "a line is skipped silently, and everything before it is hidden from the model",
        "c is joined to the last readable entry a, and reported",
        "one damaged line does not cost the history",
        patched(
            {
                "branch_leaf_to_root": ["c", "a"],
                "tree": {"roots": ["a"], "children": {"a": ["c"]}},
                "context_entries": ["a", "c"],
                "context/messages": [user("a", "q", 1767225660000), user("c", "q2", 1767225780000)],
            }
        ),
    ),
    Row(
        "damaged-bad-line",
        (4,),
        "the conversation goes on without its history",
        "it goes on with a on the path",
        "one damaged line does not cost the history",
        patched(
            {
                "branch_leaf_to_root": ["10000001", "c", "a"],
                "tree": {"roots": ["a"], "children": {"a": ["c"], "c": ["10000001"]}},
                "context_entries": ["a", "c", "10000001"],
                "context/messages": [
                    user("a", "q", 1767225660000),
                    user("c", "q2", 1767225780000),
                    user("10000001", "go on", 1772359203000),
                ],
            }
        ),
    ),
    Row(
        "damaged-cycle-off-path",
        (2,),
        "a and b, each the other's parent, vanish from the tree",
        "the cycle is cut at its first entry and both are shown",
        "nothing is hidden",
        patched({"tree": {"roots": ["a", "r"], "children": {"a": ["b"], "r": ["s"]}}}),
    ),
    Row(
        "damaged-duplicate-ids",
        (2,),
        "of two entries with one id the first is lost, the second stands twice in the tree",
        "both are kept, the first under a new id",
        "nothing is hidden",
        patched({"distinct_ids": 4, "tree/children/a": ["10000001", "b"]}),
    ),
    Row(
        "damaged-duplicate-ids",
        (3,),
        "the first of two entries with one id is no child",
        "both are",
        "nothing is hidden",
        exactly(["10000001", "b"]),
    ),
    Row(
        "damaged-duplicate-id-compaction",
        (2,),
        "a message disappears behind the compaction that has its id",
        "it is kept under a new id",
        "nothing is hidden",
        patched(
            {
                "distinct_ids": 6,
                "tree/children": {"a": ["b"], "b": ["10000001", "d"], "d": ["k"], "k": ["e"]},
            }
        ),
    ),
    Row(
        "damaged-label-targets",
        (2,),
        "a label on a missing entry and a label that is no text count as labels",
        "their entries stay, the two labels are ignored and reported",
        "every label can be seen and taken off",
        patched({"labels": {"a": {"label": " x ", "timestamp": "2026-01-01T00:05:00.000Z"}}}),
    ),
    Row(
        "damaged-message-without-message",
        (2,),
        "the context crashes",
        "it is built without that entry",
        "one damaged line does not cost the session",
        patched(
            {
                "context": {
                    "model": None,
                    "thinkingLevel": "off",
                    "messages": [user("a", "q", 1767225660000), user("b", "x", 1767225780000)],
                }
            }
        ),
    ),
    Row(
        "damaged-message-without-message",
        (3,),
        "the fork list crashes",
        "it is built without that entry",
        "one damaged line does not cost the session",
        exactly([{"entryId": "a", "text": "q"}, {"entryId": "b", "text": "x"}]),
    ),
    Row(
        "damaged-message-without-message",
        (4,),
        "the totals crash",
        "they are counted",
        "one damaged line does not cost the session",
        exactly(
            {
                "userMessages": 2,
                "assistantMessages": 0,
                "toolCalls": 0,
                "toolResults": 0,
                "totalMessages": 3,
                "tokens": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
                "cost": 0,
                "contextUsage": {"tokens": 2, "contextWindow": 1000, "percent": 0.2},
                "cost_breakdown": [],
            }
        ),
    ),
    Row(
        "damaged-timestamps",
        (2,),
        "summaries of entries without a readable time have no time",
        "the time of the entry before",
        "every message can be dated",
        patched({"context/messages/0/timestamp": 1767225720000, "context/messages/1/timestamp": 1767225720000}),
    ),
    Row(
        "list-damaged-files",
        (1,),
        "c, d and g are missing, and h is listed under an id that is no text",
        "every file with an entry is listed",
        "no session disappears from the list",
        every_file_listed,
    ),
    Row(
        "real-before-open",
        (1,),
        "the parent named by the old header field `branchedFrom` is ignored",
        "it counts as the parent",
        "forks made long ago still know where they come from",
        patched({"0/parentSession": "/home/dev/.pi/agent/sessions/--home-dev-project--/earlier.jsonl"}),
    ),
)
