"""Which tests cover which of people's cases.

A new folder in fixtures/cases needs a row. A row names tests as `file::function`.
"""

import ast
from pathlib import Path

import pytest

from tests.sessions.pi_files import CASES

TESTS = Path(__file__).parents[1]


FRAMING = "sessions/test_pi_framing.py::"
LINKS = "sessions/test_pi_links.py::"
VERSIONS = "sessions/test_pi_versions.py::"
SOURCES = "sessions/test_pi_sources.py::"
FACTS = "sessions/test_pi_facts.py::"
WRITER = "sessions/test_pi_writer.py::"
CLAUDE = "sessions/test_claude_code.py::"
CODEX = "sessions/test_codex.py::"
FORMATS = "sessions/test_formats.py::"
PI_CASES = "sessions/test_pi_cases.py::"
RACES = "crash/test_races.py::"
CLI = "cli/test_cases.py::"
SEARCH = "sessions/test_search.py::"
FIND = "cli/test_search.py::"
EXPORT = "cli/test_export.py::"
REQUEST = "loop/test_request.py::"
RUNNER = "loop/test_runner.py::"
COMPACTION = "loop/test_runner_compaction.py::"
RETRY = "loop/test_runner_retry.py::"
KILL = "crash/test_run_kill.py::"

TABLE: dict[str, tuple[str, ...]] = {
    "s01-not-a-session": (
        SOURCES + "test_files_that_are_no_sessions_are_refused_with_a_reason",
        SOURCES + "test_a_header_alone_is_a_session",
        CLI + "test_s01_a_header_alone_is_a_session_without_messages",
    ),
    "s02-torn-records": (
        FRAMING + "test_glued_records_are_recovered_each_once",
        FRAMING + "test_a_torn_line_and_its_repetition_count_once",
        CODEX + "test_s02_a_torn_record_that_comes_again_counts_once",
    ),
    "s03-nul-padding": (
        FRAMING + "test_nul_padding_is_stripped_and_the_record_kept",
        FORMATS + "test_every_whole_record_is_kept_whatever_happens_around_it",
    ),
    "s04-two-continues": (
        RACES + "test_losers_of_a_race_go_on_on_branches_of_their_own",
        RACES + "test_a_killed_process_leaves_no_lock_behind",
        KILL + "test_s04_two_continues_at_once_and_one_is_killed",
    ),
    "s05-many-writers": (RACES + "test_eight_processes_append_to_eight_sessions_while_others_read",),
    "s06-dangling-parent": (
        LINKS + "test_a_missing_parent_nobody_saw_is_bridged_to_the_entry_before",
        CLAUDE + "test_s06_a_missing_parent_is_bridged_and_the_side_chain_stays_apart",
    ),
    "s07-child-before-parent": (
        LINKS + "test_a_parent_may_stand_behind_its_child",
        CLAUDE + "test_s07_children_may_stand_before_their_parents",
    ),
    "s08-result-on-wrong-branch": (
        PI_CASES + "test_s08_both_branches_are_there_as_written",
        REQUEST + "test_a_result_on_another_branch_than_its_call_is_a_stray_there_and_missing_here",
        RUNNER + "test_a_result_hangs_under_its_call_whatever_the_leaf_is_by_then",
    ),
    "s09-chained-compaction": (
        PI_CASES + "test_s09_only_the_outer_summary_counts",
        REQUEST + "test_chained_compactions_leave_pairs_whole",
    ),
    "s10-two-of-three-results": (
        PI_CASES + "test_s10_the_two_results_are_kept_in_their_order",
        REQUEST + "test_results_come_in_call_order_and_a_missing_one_is_an_error",
        REQUEST + "test_anthropic_gets_all_results_in_one_user_message_before_its_text",
    ),
    "s11-empty-blocks": (
        CLAUDE + "test_s11_empty_blocks_are_stored_as_they_came",
        REQUEST + "test_nothing_empty_is_sent",
    ),
    "s12-second-compaction": (
        PI_CASES + "test_s12_the_first_summary_and_what_it_kept",
        VERSIONS + "test_the_version_1_index_case",
        COMPACTION + "test_s12_the_second_compaction_sees_what_the_first_kept",
    ),
    "s13-overflow-loop": (
        PI_CASES + "test_stored_entries_are_what_the_line_said",
        RETRY + "test_s13_an_overflow_that_compaction_cannot_help_ends",
    ),
    "s14-last-request-survives": (
        PI_CASES + "test_s14_the_last_request_is_whole",
        COMPACTION + "test_s14_the_last_request_survives_inside_a_long_turn",
        COMPACTION + "test_s14_a_message_typed_while_the_summary_is_made_is_kept",
    ),
    "s15-split-assistant-message": (
        CLAUDE + "test_s15_records_of_one_answer_are_one_message_and_count_once",
        CLAUDE + "test_an_answer_that_was_read_in_part_becomes_whole_and_is_not_doubled",
        FORMATS + "test_out_and_back_gives_the_same_entries_or_says_what_is_missing",
    ),
    "s16-foreign-thinking": (
        PI_CASES + "test_s16_s17_what_providers_gave_is_stored_as_it_came",
        REQUEST + "test_foreign_thinking_is_not_sent_and_the_pair_stays",
        REQUEST + "test_thinking_goes_back_to_its_maker",
    ),
    "s17-tool-call-ids": (
        PI_CASES + "test_s16_s17_what_providers_gave_is_stored_as_it_came",
        REQUEST + "test_call_ids_fit_the_protocol_and_stay_apart",
        REQUEST + "test_responses_ids_have_no_underscore_at_the_end",
    ),
    "s18-repeated-image": (
        WRITER + "test_images_come_back_byte_for_byte",
        CLI + "test_s18_no_picture_is_ever_printed_and_each_has_a_fixed_cost",
        FIND + "test_s18_kind_no_picture_is_found_or_shown",
        CODEX + "test_s18_a_picture_in_a_compaction_is_stored_once",
    ),
    "s19-lone-surrogate": (
        FRAMING + "test_lone_surrogates_become_replacement_characters",
        CLI + "test_s19_lone_surrogates_break_nothing",
        SEARCH + "test_s19_what_surrounds_a_lone_surrogate_is_found",
        FIND + "test_s19_heron_is_found",
        REQUEST + "test_lone_surrogates_become_replacement_characters",
        EXPORT + "test_difficult_cases_go_out_in_every_form",
    ),
    "s20-line-separators": (
        FRAMING + "test_only_a_line_feed_ends_a_line",
        WRITER + "test_sound_files_come_back_byte_for_byte",
        CLI + "test_s20_line_separators_are_ordinary_characters",
    ),
    "s21-control-characters": (
        FACTS + "test_names_with_control_characters_are_kept_as_they_are",
        CLI + "test_s21_control_characters_never_reach_the_terminal",
        CLI + "test_s21_kind_names_labels_branches_and_errors_are_safe",
        FIND + "test_s21_kind_what_is_found_is_safe_for_the_terminal",
    ),
    "s22-deep-chain": (
        PI_CASES + "test_s22_twenty_thousand_entries_go_in_and_out_in_seconds",
        CLI + "test_s22_twenty_thousand_entries_in_one_chain",
        "sessions/test_html.py::test_a_chain_of_twenty_thousand_entries_needs_no_recursion",
        EXPORT + "test_a_deep_chain_goes_out_in_every_form",
    ),
    "s23-colliding-folders": (
        SOURCES + "test_the_directory_is_taken_from_the_header",
        CLI + "test_s23_folders_are_told_apart_by_their_whole_path",
    ),
    "s24-deleted-folder": (
        SOURCES + "test_a_directory_that_is_gone_does_not_matter",
        CLI + "test_s24_a_deleted_folder_stops_no_reading",
        CLI + "test_s24_kind_the_callers_own_folder_may_be_gone",
        "cli/test_run.py::test_a_folder_that_is_gone_is_said_and_the_current_one_used",
        "cli/test_resume.py::test_the_folder_that_is_gone_is_said_in_one_line",
        "loop/test_tools_files.py::test_a_vanished_working_directory_is_said_by_every_tool",
    ),
    "s25-raw-html": (
        WRITER + "test_sound_files_come_back_byte_for_byte",
        "sessions/test_html.py::test_raw_html_of_the_case_is_text",
    ),
    "s26-search-punctuation": (
        PI_CASES + "test_s26_the_entries_of_every_query_are_there",
        SEARCH + "test_s26_every_query_finds_its_entry",
        SEARCH + "test_signs_of_the_index_language_are_harmless",
        FIND + "test_a_search_that_fails_never_looks_like_nothing_found",
    ),
    "s27-listing-order": (
        FACTS + "test_the_older_session_of_the_listing_case",
        CLI + "test_s27_the_list_is_ordered_by_the_instant_of_the_last_message",
        CLI + "test_s27_odd_times_keep_the_order_of_the_file",
    ),
    "s28-ambiguous-prefix": (
        PI_CASES + "test_s28_ids_are_those_of_the_file",
        CLI + "test_s28_an_ambiguous_prefix_lists_the_candidates_and_does_nothing",
        CLI + "test_s28_an_exact_entry_id_wins_over_longer_ones",
    ),
    "s29-secrets": (
        PI_CASES + "test_s29_secrets_go_through_unchanged_when_nothing_is_redacted",
        "sessions/test_secrets.py::test_s29_the_case_leaks_nothing_and_keeps_what_it_should",
        "cli/test_scrub.py::test_s29_every_secret_of_the_case_is_removed",
        EXPORT + "test_no_secret_is_left_in_any_form",
    ),
    "s30-tool-call-assembly": ("loop/test_providers_wire.py::test_s30_tool_calls_are_put_together",),
    "s31-empty-choices": ("loop/test_providers_wire.py::test_s31_chunks_without_choices_and_usage_anywhere",),
    "s32-keep-alives": ("loop/test_providers_wire.py::test_s32_keep_alives_are_skipped",),
    "s33-split-bytes": ("loop/test_providers_wire.py::test_s33_text_is_right_for_every_cut",),
    "s34-rate-limit-is-not-overflow": (
        "loop/test_retry.py::test_s34_rate_limit_is_waited_out",
        "loop/test_retry.py::test_s34_overflow_ends_in_the_providers_words",
        RETRY + "test_s34_a_rate_limit_is_waited_out_and_never_compacted",
        RETRY + "test_s34_an_overflow_with_compaction_off_is_the_providers_error",
    ),
    "s35-stalled-stream": (
        "loop/test_providers_client.py::test_s35_keep_alives_are_no_progress",
        "loop/test_providers_client.py::test_s35_holds_for_every_protocol",
        "loop/test_providers_client.py::test_s35_interrupt_ends_it_within_a_second",
        RETRY + "test_s35_a_stalled_answer_is_kept_marked_and_an_abort_ends_it_at_once",
    ),
    "samples/pi-v1-reduced.jsonl": (VERSIONS + "test_the_reduced_version_1_sample",),
    "samples/pi-v2-hook-message.jsonl": (VERSIONS + "test_the_version_2_sample",),
    "samples/claude-code-reduced.jsonl": (CLAUDE + "test_the_reduced_sample",),
    "samples/claude-code-compact-after-rewind-reduced.jsonl": (
        CLAUDE + "test_a_compaction_after_a_rewind_keeps_the_tree_in_one_piece",
    ),
    "samples/codex-reduced.jsonl": (CODEX + "test_the_reduced_sample",),
}


def case_names() -> set[str]:
    folders = {path.name for path in CASES.iterdir() if path.is_dir() and path.name != "samples"}
    return folders | {f"samples/{path.name}" for path in (CASES / "samples").iterdir()}


def test_every_case_has_a_row_and_every_row_a_case() -> None:
    assert set(TABLE) == case_names()


@pytest.mark.parametrize("name", TABLE)
def test_a_row_names_tests_that_exist(name: str) -> None:
    assert TABLE[name]
    for reference in TABLE[name]:
        file, _, function = reference.partition("::")
        defined = {
            node.name
            for node in ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
        assert function in defined, reference
