"""Labels and names: facts read off entries that stay entries."""

from pathlib import Path

from pi_sessions.formats.pi import read_pi_file
from tests.sessions.pi_files import CASES, answer, codes, entry, header, read, tree, user


def label(id: str, parent: str, minute: int, **fields: object) -> str:
    return entry("label", id, parent, minute, **fields)


def test_labels_follow_file_order_and_keep_their_text(tmp_path: Path) -> None:
    """The recorded case `damaged-label-targets`, and more: text is not trimmed, null or empty clears."""
    lines = [
        user("a", None),
        answer("b", "a"),
        user("c", "b"),
        label("l1", "c", 4, targetId="gone", label="dangling"),
        label("l2", "l1", 5, targetId="a", label=" x "),
        label("l3", "l2", 6, targetId="b", label="B"),
        label("l4", "l3", 7, targetId="b", label=None),
        label("l5", "l4", 8, targetId="c", label=5),
        label("l6", "l5", 9, targetId="c", label="C"),
        label("l7", "a", 10, targetId="c"),
        label("l8", "a", 11, targetId="c", label="other branch"),
        label("l9", "a", 12, targetId=["no"], label="x"),
    ]
    session = read(tmp_path, header(), *lines)
    assert session.labels == {"a": (" x ", 1767225900000), "c": ("other branch", 1767226260000)}
    assert codes(session) == [(5, "label_target"), (9, "label_text"), (13, "label_target")]
    assert len(session.entries) == 12


def test_a_label_may_stand_before_its_target(tmp_path: Path) -> None:
    session = read(
        tmp_path, header(), user("a", None), label("l", "a", 2, targetId="b", label="early"), answer("b", "a")
    )
    assert list(session.labels) == ["b"]


def test_the_last_name_of_the_file_counts(tmp_path: Path) -> None:
    lines = [
        user("a", None),
        entry("session_info", "n1", "a", 2, name="first"),
        entry("session_info", "n2", "a", 3, name="  second  "),
        entry("session_info", "n3", "n1", 4, name=7),
    ]
    session = read(tmp_path, header(), *lines)
    assert (session.name, session.name_time_ms) == ("second", 1767225780000)
    assert codes(session) == [(5, "name_text")]
    cleared = read(tmp_path, header(), *lines[:3], entry("session_info", "n4", "a", 5, name=""))
    assert cleared.name is None


def test_the_older_session_of_the_listing_case() -> None:
    """The case `s27-listing-order`: a label long after the last message is a fact, and file order decides."""
    folder = CASES / "s27-listing-order"
    older = read_pi_file(str(folder / "a-older.jsonl"))
    assert older.labels == {"cc000001": ("bookmarked later", 1772668800000)}
    assert older.entries[0].time_ms == 1772326800000
    newer = read_pi_file(str(folder / "b-newer.jsonl"))
    assert newer.entries[0].time_ms == 1772330400000
    odd = read_pi_file(str(folder / "d-odd-times.jsonl"))
    assert list(tree(odd)) == ["cc000005", "cc000006", "cc000007"]
    assert [one.time_ms for one in odd.entries] == [1769904000000, 1769904060000, 1769903940000]
    future = read_pi_file(str(folder / "c-future-clock.jsonl"))
    assert future.entries[0].time_ms == 1924992000000


def test_names_with_control_characters_are_kept_as_they_are() -> None:
    """The case `s21-control-characters`: showing them safely is up to who shows them."""
    names = [
        read_pi_file(str(CASES / "s21-control-characters" / f"title-{number}.jsonl")).name or "" for number in range(9)
    ]
    assert names[0] == "plain title"
    assert names[4] == "two\nlines\tand tab"
    assert names[5] == "c1 \x9b31mred"
    assert all(names)
