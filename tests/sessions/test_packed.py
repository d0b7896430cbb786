"""Sources that are packed: account exports in zip archives, compressed files, and damage to either."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pi_sessions.errors import SourceError
from pi_sessions.formats import compressed
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import Found, find_sources, identify
from pi_sessions.store import SessionStore
from tests.sessions.foreign import FORMATS
from tests.sessions.pi_files import check

CHATGPT = FORMATS / "chatgpt"
CLAUDE = FORMATS / "claude-ai" / "conversations.json"
ROLLOUTS = sorted((FORMATS / "codex" / "sessions").rglob("*.jsonl"))
PROJECTS = FORMATS / "claude-code" / "projects"


def zipped(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Make an archive of some files."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def found_in(*paths: Path) -> list[Found]:
    return list(find_sources([str(path) for path in paths]))


def read_all(*paths: Path) -> list[ParsedSession]:
    """Read every source below some paths; nothing is refused and every session is sound."""
    sessions: list[ParsedSession] = []
    for found in found_in(*paths):
        assert found.format is not None, found.reason
        sessions += found.format.read(found.path)
    for session in sessions:
        check(session)
    return sessions


def said(session: ParsedSession) -> list[tuple[str, str | None, str]]:
    return [(entry.id, entry.parent_id, entry.payload) for entry in session.entries]


def refusals(*paths: Path) -> list[str]:
    return [found.reason or "" for found in found_in(*paths) if found.format is None]


# --- zip archives -------------------------------------------------------------------------------------------------


def test_a_zipped_account_export_is_the_unpacked_one_pictures_included(tmp_path: Path) -> None:
    path = zipped(tmp_path / "export.zip", {**files_of(CHATGPT), "user.json": b"{}", "chat.html": b"<html>"})
    packed, plain = read_all(path), read_all(CHATGPT)
    assert [said(session) for session in packed] == [said(session) for session in plain]
    assert {session.source for session in packed} == {f"{path}/conversations.json"}
    assert [session.digest for session in packed] == [session.digest for session in plain]
    assert '"type":"image"' in packed[0].entries[1].payload
    assert packed[0].mtime_ms == path.stat().st_mtime_ns // 1_000_000


def test_an_export_in_several_files_and_folders_is_read_whole(tmp_path: Path) -> None:
    given = json.loads((CHATGPT / "conversations.json").read_bytes())
    files = {f"data/conversations-{number:03}.json": json.dumps([each]).encode() for number, each in enumerate(given)}
    picture = next(CHATGPT.glob("*.png"))
    files[f"data/{picture.name}"] = picture.read_bytes()
    archive = zipped(tmp_path / "export.zip", files)
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    whole = [said(session) for session in read_all(CHATGPT)]
    assert [said(session) for session in read_all(archive)] == whole
    assert [said(session) for session in read_all(folder)] == whole
    assert read_all(archive)[2].source == f"{archive}/data/conversations-002.json"


def test_archive_and_folder_make_the_same_sessions_once(tmp_path: Path, store: SessionStore) -> None:
    archive = zipped(tmp_path / "export.zip", {"a/conversations.json": CLAUDE.read_bytes()})
    first = [store.import_session(session) for session in read_all(archive)]
    again = [store.import_session(session) for session in read_all(CLAUDE.parent)]
    assert all(result.created for result in first)
    assert all(
        result.unchanged and result.session.id == one.session.id for result, one in zip(again, first, strict=True)
    )
    entry = store.entries(first[0].session.id)[0]
    origin = store.origin(first[0].session.id, entry.id)
    assert origin is not None
    assert origin.source == f"{archive}/a/conversations.json"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zipped_data_folder_is_read_like_the_folder(tmp_path: Path, method: int) -> None:
    archive = zipped(tmp_path / "claude.zip", files_of(PROJECTS), method)
    packed, plain = read_all(archive), read_all(PROJECTS)
    assert [said(session) for session in packed] == [said(session) for session in plain]
    assert [session.child_of for session in packed] == [session.child_of for session in plain]
    assert [session.id for session in packed] == [session.id for session in plain]


def test_what_a_zipped_data_folder_holds_beside_sessions_is_left_out(tmp_path: Path) -> None:
    files = {f"home/.claude/projects/{name}": content for name, content in files_of(PROJECTS).items()}
    files |= {"home/.claude/plugins/x.jsonl": b"no\n", "home/.codex/log/y.jsonl": b"no\n"}
    files |= {f"home/.codex/sessions/{path.name}": path.read_bytes() for path in ROLLOUTS}
    sessions = read_all(zipped(tmp_path / "home.zip", files))
    assert len(sessions) == len(read_all(PROJECTS)) + len(ROLLOUTS)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_what_is_compressed_inside_an_archive_is_read_too(tmp_path: Path, ending: str) -> None:
    raw = PACKERS[ending](ROLLOUTS[0].read_bytes())
    archive = zipped(tmp_path / "a.zip", {f"{ROLLOUTS[0].name}{ending}": raw})
    assert said(read_all(archive)[0]) == said(read_all(ROLLOUTS[0])[0])
    (found,) = found_in(zipped(tmp_path / "b.zip", {f"{ROLLOUTS[0].name}{ending}": raw[:-9]}))
    if found.format is not None:
        (session,) = found.format.read(found.path)
        assert any("compressed file is cut off" in loss.message for loss in session.losses)


def test_a_member_can_be_named_by_itself(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "both.zip", {"a/conversations.json": CLAUDE.read_bytes(), "b.jsonl": b"{}\n"})
    assert len(read_all(archive / "a" / "conversations.json")) == 2
    assert refusals(archive / "nothing.json") == [f"{archive}/nothing.json does not exist"]


def test_what_an_archive_holds_besides_is_named_when_it_was_named(tmp_path: Path) -> None:
    with_database = zipped(
        tmp_path / "mixed.zip",
        {
            "opencode.db": b"SQLite format 3\0" + bytes(84),
            "broken.jsonl": b"no\n",
            "notes.txt": b"x",
            "__MACOSX/._a.jsonl": b"x",
        },
    )
    told = refusals(with_database)
    assert len(told) == 2
    assert "broken.jsonl is no session file" in told[0]
    assert "opencode.db is a database, which can only be read where it is unpacked" in told[1]
    assert "unpack it and import the folder" in refusals(zipped(tmp_path / "none.zip", {"a.txt": b"x"}))[0]
    assert "without conversations" in refusals(zipped(tmp_path / "empty.zip", {}))[0]


def test_archives_that_lie_in_a_folder_speak_only_of_conversations(tmp_path: Path) -> None:
    zipped(tmp_path / "photos.zip", {"a.json": b"{}", "b.db": b"SQLite format 3\0" + bytes(84)})
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04 and no more")
    zipped(tmp_path / "export.zip", {"conversations.json": CLAUDE.read_bytes()})
    assert [found.path for found in found_in(tmp_path)] == [f"{tmp_path}/export.zip/conversations.json"]


def test_encrypted_cut_and_uncommon_archives_are_refused_with_a_way_out(tmp_path: Path) -> None:
    raw = bytearray(zipped(tmp_path / "a.zip", {"conversations.json": CLAUDE.read_bytes()}).read_bytes())
    secret = bytearray(raw)
    directory = secret.rindex(b"PK\x01\x02")
    secret[6] |= 1
    secret[directory + 8] |= 1
    (tmp_path / "secret.zip").write_bytes(secret)
    assert "is encrypted (unpack it with its password" in refusals(tmp_path / "secret.zip")[0]
    (tmp_path / "cut.zip").write_bytes(raw[: len(raw) // 2])
    assert "damaged or cut-off zip archive (download or copy it once more" in refusals(tmp_path / "cut.zip")[0]
    zipped(tmp_path / "bz.zip", {"conversations.json": CLAUDE.read_bytes()}, zipfile.ZIP_BZIP2)
    assert "packed in an uncommon way (method 12)" in refusals(tmp_path / "bz.zip")[0]


def test_members_with_odd_names_are_passed_over(tmp_path: Path) -> None:
    names = ["a/conversations.json", "..\\x.json", "../../up.json", "/abs.json", "line\nbreak.json", "ü.json", "x/"]
    raw = zipped(tmp_path / "odd.zip", {name: CLAUDE.read_bytes() for name in names}).read_bytes()
    sessions = read_all(tmp_path / "odd.zip")
    assert {session.id for session in sessions} == {"c-1", "c-2"}
    assert len(sessions) == 2 * (len(names) - 1)
    # A member without a name.
    (tmp_path / "odd.zip").write_bytes(raw.replace(b"/abs.json", b"\0abs.json"))
    assert len(read_all(tmp_path / "odd.zip")) == 2 * (len(names) - 2)


class Pipe(io.RawIOBase):
    """Takes bytes and cannot go back, like a download that is packed while it is sent."""

    def __init__(self) -> None:
        self.content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.content += bytes(data)
        return len(data)


def test_an_archive_that_was_packed_while_it_was_sent_is_read(tmp_path: Path) -> None:
    """Its local headers hold no sizes; here in the large form as well."""
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("conversations.json", "w", force_zip64=True) as file:
            file.write(CLAUDE.read_bytes())
        archive.writestr("user.json", b"{}")
    path = tmp_path / "sent.zip"
    path.write_bytes(pipe.content)
    assert [said(session) for session in read_all(path)] == [said(session) for session in read_all(CLAUDE)]


def test_two_files_of_one_name_are_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", b"[]")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("conversations.json", CLAUDE.read_bytes())
    found = found_in(path)
    assert [each.format.name for each in found if each.format] == ["claude-ai"]
    assert refusals(path) == [f"{path} has 2 files called conversations.json; only the last was read"]


def test_archives_that_swell_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    start = b'[{"uuid":"a","chat_messages":[{"text":"'
    path = zipped(tmp_path / "bomb.zip", {"conversations.json": start + b" " * (80 << 20)})
    assert path.stat().st_size < 1 << 20
    assert "very many times its size" in refusals(path)[0]


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_compressed_files_that_swell_are_refused_while_they_are_read(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    head = ROLLOUTS[0].read_bytes().splitlines(keepends=True)[0]
    path = tmp_path / f"rollout.jsonl{ending}"
    path.write_bytes(pack(head + b" " * (300 << 20)))
    (found,) = found_in(path)
    if found.format is None:
        assert "very many times its size" in (found.reason or "")
        return
    with pytest.raises(SourceError, match="very many times its size"):
        list(found.format.read(str(path)))


LARGE = """
import json, resource, sys
from pi_sessions.formats.registry import find_sources
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sessions = 0
for found in find_sources([sys.argv[1]]):
    for session in found.format.read(found.path):
        sessions += 1
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([sessions, peak - before]))
"""


def test_a_large_member_is_read_in_the_memory_of_one_conversation(tmp_path: Path) -> None:
    """Forty megabytes; the working set may grow by a third of that at most."""
    conversation: dict[str, Any] = json.loads(CLAUDE.read_text("utf-8"))[1]
    chance = random.Random(7)
    words = "".join(chance.choices("abcdefgh ", k=100_000))
    conversation["chat_messages"][1]["text"] = words
    path = tmp_path / "export.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("conversations.json", "w") as file,
    ):
        for number in range(400):
            conversation["uuid"] = f"c-{number}"
            file.write(b"[" if not number else b",")
            file.write(json.dumps(conversation).encode())
        file.write(b"]")
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    sessions, grown_kib = json.loads(done.stdout)
    assert sessions == 400
    assert grown_kib < 40_000_000 // 3 // 1024


# --- compressed files ---------------------------------------------------------------------------------------------

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("source", [*ROLLOUTS, PROJECTS / "-proj-bakery" / "5f1e0c2a-0000-4000-8000-00000000000a.jsonl",
                                    FORMATS / "gemini" / "session-2026-09-01T10-00-0b1c2d3e.jsonl", CLAUDE,
                                    FORMATS / "messages" / "chat.json"], ids=lambda path: path.name[:24])  # fmt: skip
def test_a_compressed_file_is_the_plain_one(tmp_path: Path, source: Path, ending: str) -> None:
    path = tmp_path / f"{source.name}{ending}"
    path.write_bytes(PACKERS[ending](source.read_bytes()))
    packed, plain = read_all(path), read_all(source)
    assert [said(session) for session in packed] == [said(session) for session in plain]
    assert [session.id for session in packed] == [session.id for session in plain]
    assert [session.digest for session in packed] == [session.digest for session in plain]


def test_the_plain_file_wins_beside_its_compressed_form(tmp_path: Path) -> None:
    source = ROLLOUTS[0]
    shutil.copy(source, tmp_path)
    (tmp_path / f"{source.name}.zst").write_bytes(PACKERS[".zst"](source.read_bytes()))
    assert [found.path for found in found_in(tmp_path)] == [str(tmp_path / source.name)]
    archive = zipped(tmp_path / "a.zip", files_of(tmp_path))
    assert [found.path for found in found_in(archive)] == [f"{archive}/{source.name}"]


def test_a_rollout_that_is_compressed_later_is_the_session_it_was(tmp_path: Path, store: SessionStore) -> None:
    source = ROLLOUTS[0]
    (first,) = (store.import_session(session) for session in read_all(source))
    path = tmp_path / f"{source.name}.zst"
    path.write_bytes(PACKERS[".zst"](source.read_bytes()))
    (again,) = (store.import_session(session) for session in read_all(path))
    assert again.unchanged
    assert again.session.id == first.session.id


def test_frames_after_each_other_and_padding_are_one_file(tmp_path: Path) -> None:
    raw = ROLLOUTS[0].read_bytes()
    half = len(raw) // 2
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"abcd"
    for ending, pack in PACKERS.items():
        path = tmp_path / f"a.jsonl{ending}"
        before = skippable if ending == ".zst" else b""
        path.write_bytes(before + pack(raw[:half]) + pack(raw[half:]) + bytes(1000))
        assert [said(session) for session in read_all(path)] == [said(session) for session in read_all(ROLLOUTS[0])]


def test_packed_files_that_are_not_read_as_they_lie_say_what_to_do(tmp_path: Path) -> None:
    for ending, pack in PACKERS.items():
        path = tmp_path / f"rollout{ending}".replace(".", "-")
        path.write_bytes(pack(ROLLOUTS[0].read_bytes()))
        assert refusals(path) == [f"{path} is compressed (give it the ending {ending}, or unpack it)"]
    path = tmp_path / "backup.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(ROLLOUTS[0], ROLLOUTS[0].name)
    assert refusals(path) == [f"{path} is a tar archive (unpack it and import the folder)"]


def test_a_file_that_only_sounds_compressed_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    shutil.copy(ROLLOUTS[0], path)
    assert said(read_all(path)[0]) == said(read_all(ROLLOUTS[0])[0])


def test_without_zstd_the_refusal_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rollout-a.jsonl.zst"
    path.write_bytes(PACKERS[".zst"](ROLLOUTS[0].read_bytes()))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    hint = "pip install 'pi-session[zstd]', or unpack it with `zstd -d` and import that"
    assert refusals(path) == [f"{path} is compressed with zstd, which is not installed here ({hint})"]
    assert refusals(tmp_path) == refusals(path)


def test_pythons_own_zstd_is_taken_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(type(sys)):  # type: ignore[misc]
        ZstdError = zstandard.ZstdError
        ZstdDecompressor = staticmethod(lambda: zstandard.ZstdDecompressor().decompressobj())

    path = tmp_path / "rollout-a.jsonl.zst"
    path.write_bytes(PACKERS[".zst"](ROLLOUTS[0].read_bytes()))
    monkeypatch.setitem(sys.modules, "compression", type(sys)("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", Own("compression.zstd"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert said(read_all(path)[0]) == said(read_all(ROLLOUTS[0])[0])


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", PACKERS)
def test_a_compressed_file_that_is_cut_keeps_what_was_whole_and_says_so(tmp_path: Path, ending: str) -> None:
    chance = random.Random(3)
    lines = ROLLOUTS[0].read_bytes().splitlines(keepends=True)
    filler = [
        b'{"timestamp":"2026-04-02T09:00:00Z","type":"response_item","payload":{"type":"message","role":"user",'
        b'"content":[{"type":"input_text","text":"%s"}]}}\n' % chance.randbytes(300).hex().encode()
        for _number in range(400)
    ]
    raw = PACKERS[ending](b"".join([*lines, *filler]))
    path = tmp_path / f"rollout-a.jsonl{ending}"
    path.write_bytes(raw)
    whole = said(read_all(path)[0])
    kept_most = 0
    for cut in range(len(raw) - 1, 0, -len(raw) // 23):
        path.write_bytes(raw[:cut])
        (found,) = found_in(path)
        if found.format is None:
            assert "cut off so early" in (found.reason or "")
            continue
        (session,) = found.format.read(str(path))
        check(session)
        assert session.losses[-1].code == "cut_off" or "cut_off" in [loss.code for loss in session.losses]
        assert any("compressed file is cut off" in loss.message for loss in session.losses)
        kept = said(session)
        assert kept[:-1] == whole[: len(kept) - 1]
        kept_most = max(kept_most, len(kept))
    assert kept_most > len(whole) // 2


@pytest.mark.parametrize("ending", [*PACKERS, ".zip"])
def test_flipped_bytes_are_refused_or_change_nothing(tmp_path: Path, ending: str) -> None:
    chance = random.Random(11)
    source = ROLLOUTS[0]
    if ending == ".zip":
        path = zipped(tmp_path / "a.zip", {source.name: source.read_bytes()})
    else:
        path = tmp_path / f"{source.name}{ending}"
        path.write_bytes(PACKERS[ending](source.read_bytes()))
    raw, whole = path.read_bytes(), said(read_all(path)[0])
    refused = 0
    for _turn in range(250):
        damaged = bytearray(raw)
        for _flip in range(chance.choice((1, 1, 3))):
            damaged[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        for found in found_in(path):
            if found.format is None:
                assert found.reason
                refused += 1
                continue
            try:
                sessions = list(found.format.read(found.path))
            except SourceError:
                refused += 1
                continue
            for session in sessions:
                check(session)
                assert said(session) == whole or session.losses
    assert refused > 100


def test_a_damaged_member_gives_no_session_at_all(tmp_path: Path) -> None:
    given = json.loads(CLAUDE.read_bytes())
    chance = random.Random(5)
    given[1]["chat_messages"][0]["text"] = chance.randbytes(200_000).hex()
    path = zipped(tmp_path / "export.zip", {"conversations.json": json.dumps(given).encode()})
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x10
    path.write_bytes(raw)
    (found,) = found_in(path)
    assert found.format is not None
    sessions = found.format.read(found.path)
    with pytest.raises(SourceError, match=r"conversations\.json is damaged and cannot be unpacked"):
        next(sessions)


def test_an_archive_is_read_in_any_pieces(tmp_path: Path) -> None:
    content = os.urandom(50_000) * 3
    file = compressed.unpacked(io.BufferedReader(io.BytesIO(gzip.compress(content))), "a.gz")
    assert b"".join(iter(lambda: file.read(777), b"")) == content
    assert not compressed.look_through(file)


def test_an_archive_in_an_archive_is_not_taken_for_a_session(tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", {"conversations.json": CLAUDE.read_bytes()}).read_bytes()
    assert "without conversations" in refusals(zipped(tmp_path / "outer.zip", {"inner.zip": inner}))[0]
    assert "zip archive" in (identify(str(tmp_path / "inner.zip")).reason or "")
