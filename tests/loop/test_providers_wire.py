"""Recorded and hand-written responses give the messages they should, whatever the cuts."""

import json
from pathlib import Path
from typing import Any

import anyio
import h11
import pytest

from pi_loop.target import CHAT
from pi_sessions.messages import JsonObject
from tests.conformance import wire
from tests.conformance.wire_playback import (
    Recording,
    cut_at,
    cut_plans,
    find_recordings,
    load_recording,
    play,
    playback,
)
from tests.loop.provider_support import BACKENDS, CASES

EXPECTED = json.loads((wire.BUNDLED / "messages.json").read_text("utf-8"))["recordings"]


def play_plans(recordings: list[Recording], *, every_byte_up_to: int, backend: str = "asyncio") -> list[JsonObject]:
    async def main() -> list[JsonObject]:
        return await wire.play_all(recordings, every_byte_up_to=every_byte_up_to, all_up_to=8_000)

    return anyio.run(main, backend=backend)


def test_every_recording_gives_its_message_whatever_the_cuts() -> None:
    recordings = find_recordings([wire.BUNDLED])
    results = play_plans(recordings, every_byte_up_to=0)
    assert [result["recording"] for result in results if not result["same"]] == []
    got = {result["recording"]: result["message"] for result in results}
    assert got == {entry["recording"]: entry["message"] for entry in EXPECTED}


def test_small_recordings_give_the_same_byte_by_byte() -> None:
    recordings = [
        recording
        for recording in find_recordings([wire.BUNDLED / "handwritten", wire.BUNDLED / "llmock"])
        if len(recording.raw) < 350
    ]
    assert len(recordings) > 8
    results = play_plans(recordings, every_byte_up_to=350)
    assert [result["recording"] for result in results if not result["same"]] == []


@pytest.mark.soak
def test_every_recording_gives_the_same_byte_by_byte() -> None:
    results = play_plans(find_recordings([wire.BUNDLED]), every_byte_up_to=1_000_000)
    assert [result["recording"] for result in results if not result["same"]] == []


def test_messages_are_the_same_on_trio() -> None:
    names = ("aimock/anth-thinktool.http", "llmock/chat-disconnect.http", "aimock/resp-plain.http")
    recordings = [recording for recording in find_recordings([wire.BUNDLED]) if recording.name in names]
    expected = {entry["recording"]: entry["message"] for entry in EXPECTED}
    for result in play_plans(recordings, every_byte_up_to=0, backend="trio"):
        assert result["same"]
        assert result["message"] == expected[result["recording"]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_cut_is_one_read_of_the_client(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    receive = h11.Connection.receive_data

    def counted(self: h11.Connection, data: bytes) -> None:
        reads.append(len(data))
        receive(self, data)

    monkeypatch.setattr(h11.Connection, "receive_data", counted)
    recording = load_recording(wire.BUNDLED / "llmock" / "chat-e429.http", wire.BUNDLED)
    pieces = cut_plans(recording, every_byte_up_to=10_000)["every byte"]

    async def main() -> None:
        async with playback() as server:
            await play(server, recording, pieces, idle_limit_s=5)

    anyio.run(main, backend=backend)
    assert reads.count(1) == len(recording.raw)


def test_command_writes_messages_and_tells_the_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    folder = CASES / "s32-keep-alives"
    assert wire.main([str(folder), "--json", str(target)]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["recording"] == "s32-keep-alives/keep-alives.sse"
    assert line["message"]["content"] == [{"type": "text", "text": "One two three"}]
    assert json.loads(target.read_text("utf-8"))["recordings"] == [line]
    assert wire.main([str(tmp_path / "nothing")]) == 2


# --- people's cases ---------------------------------------------------------------------------------------------


def case_message(case: str, name: str, pieces: list[bytes] | None = None, *, backend: str = "asyncio") -> Any:
    recording = load_recording(CASES / case / name, CASES)
    assert recording.api == CHAT

    async def main() -> JsonObject:
        async with playback() as server:
            return await play(server, recording, pieces or [recording.raw], idle_limit_s=5)

    return anyio.run(main, backend=backend)


def expected(case: str) -> Any:
    return json.loads((CASES / case / "expected.json").read_text("utf-8"))


def text_of(message: Any) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


@pytest.mark.parametrize("name", sorted(expected("s30-tool-call-assembly")))
def test_s30_tool_calls_are_put_together(name: str) -> None:
    wanted = expected("s30-tool-call-assembly")[name]
    message = case_message("s30-tool-call-assembly", name)
    calls = [block for block in message["content"] if block["type"] == "toolCall"]
    assert [(call["name"], call["arguments"]) for call in calls] == [
        (call[1], call[2]) for call in wanted["tool_calls"]
    ]
    for call, (call_id, _, _) in zip(calls, wanted["tool_calls"], strict=True):
        assert call["id"] == call_id or (call_id == "(any fresh unique id)" and call["id"])
        assert "argumentsError" not in call
    assert len({call["id"] for call in calls}) == len(calls)
    assert message["stopReason"] == "toolUse"


@pytest.mark.parametrize("name", sorted(expected("s31-empty-choices")))
def test_s31_chunks_without_choices_and_usage_anywhere(name: str) -> None:
    wanted = expected("s31-empty-choices")[name]
    message = case_message("s31-empty-choices", name)
    usage = message["usage"]
    assert text_of(message) == wanted["text"]
    assert message["stopReason"] == wanted.get("stop", "stop")
    assert usage["input"] == wanted["usage"]["input_not_cached"]
    assert usage["output"] == wanted["usage"]["output"]
    assert usage["cacheRead"] == wanted["usage"].get("cache_read", 0)
    assert usage["totalTokens"] == usage["input"] + usage["output"] + usage["cacheRead"]


def test_s32_keep_alives_are_skipped() -> None:
    message = case_message("s32-keep-alives", "keep-alives.sse")
    assert text_of(message) == "One two three"
    assert message["stopReason"] == "stop"
    assert "errorMessage" not in message


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(expected("s33-split-bytes")))
def test_s33_text_is_right_for_every_cut(name: str, backend: str) -> None:
    body = (CASES / "s33-split-bytes" / name).read_bytes()
    recording = load_recording(CASES / "s33-split-bytes" / name, CASES)
    head = len(recording.raw) - len(body)
    places = json.loads((CASES / "s33-split-bytes" / "chunks.json").read_text("utf-8")).get(name, [])
    wanted = expected("s33-split-bytes")[name]["text"]
    plans = {
        "given": cut_at(recording.raw, [head + place for place in places]),
        "bytes": cut_at(recording.raw, range(len(recording.raw))),
    }
    for pieces in plans.values():
        message = case_message("s33-split-bytes", name, pieces, backend=backend)
        assert text_of(message) == wanted
        assert message["stopReason"] == "stop"
