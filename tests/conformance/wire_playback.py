"""Plays recorded HTTP responses from a local socket, cut where one likes, and asks for them through the real client.

A recording is the bytes a server sent (`.http`), or only the body of a stream (`.sse`). Each piece is handed to the
socket alone, and the event loop runs until the client has taken it, so a cut is a cut for the client too.
"""

import itertools
import json
import re
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel

from pi_loop.events import StreamDone, StreamError
from pi_loop.models.discovery import served_models
from pi_loop.providers.client import ClientSettings, ModelClient
from pi_loop.providers.retry import NO_RETRY
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_loop.types import Model, Request, StreamOptions
from pi_sessions.messages import JsonObject, UserMessage, to_wire

CLOCK_MS = 1_772_442_000_000
LIST_OF_MODELS = "models"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"
_PREFIXES = {"chat": CHAT, "resp": RESPONSES, "anth": ANTHROPIC, "models": LIST_OF_MODELS}
_FIELD_NAMES = re.compile(rb"(?:(?<=[\r\n])|\A)(data|event|id|retry)(?=[:\r\n])")
MANY_PLACES = ("inside field names", "after line ends", "inside escapes")
# Turns of the event loop after which a waiting client has read what is in the socket.
_TURNS = 4


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded response.

    Args:
        name: Folder and file name.
        api: The protocol, or `models` for a list of models.
        raw: Every byte the server sent.
        model_id: The model that was asked.
        sizes: How many bytes each read of the recording client gave; empty when unknown.
    """

    name: str
    api: str
    raw: bytes
    model_id: str
    sizes: tuple[int, ...]


def find_recordings(folders: Iterable[Path]) -> list[Recording]:
    """Load the recordings below some folders, in the order of their names."""
    found: list[Recording] = []
    for folder in folders:
        paths = [folder] if folder.is_file() else sorted([*folder.rglob("*.http"), *folder.rglob("*.sse")])
        found += [
            load_recording(path, folder)
            for path in paths
            if path.suffix == ".http" or not path.with_suffix(".http").exists()
        ]
    return found


def load_recording(path: Path, folder: Path) -> Recording:
    """Load one recording and what its `.meta.json` says."""
    raw = path.read_bytes()
    if path.suffix == ".sse":
        raw = STREAM_HEAD + raw
    meta_path = path.with_suffix(".meta.json")
    meta = json.loads(meta_path.read_text("utf-8")) if meta_path.exists() else {}
    request = meta.get("request", {})
    body = request.get("body")
    model_id = body.get("model", "model") if isinstance(body, dict) else "model"
    arrivals = meta.get("response", {}).get("arrivals_ms_and_sizes") or []
    name = path.relative_to(folder).as_posix() if folder.is_dir() else path.name
    if "/" not in name:
        name = f"{path.parent.name}/{name}"
    return Recording(name, _api(path, request, raw), raw, model_id, tuple(size for _, size in arrivals))


def _api(path: Path, request: JsonObject, raw: bytes) -> str:
    """Tell the protocol: by the request's path, by the file's name, by what the bytes look like."""
    asked = str(request.get("path", ""))
    for end, api in (
        ("/messages", ANTHROPIC),
        ("/responses", RESPONSES),
        ("/chat/completions", CHAT),
        ("/models", LIST_OF_MODELS),
    ):
        if asked.partition("?")[0].endswith(end):
            return api
    prefix = re.split(r"[-_.]", path.name)[0]
    if prefix in _PREFIXES:
        return _PREFIXES[prefix]
    if b'"message_start"' in raw or b'"content_block' in raw:
        return ANTHROPIC
    return RESPONSES if b'"response.' in raw or b'"object":"response"' in raw else CHAT


# --- cuts -------------------------------------------------------------------------------------------------------


def cut_plans(recording: Recording, *, every_byte_up_to: int, all_up_to: int | None = None) -> dict[str, list[bytes]]:
    """Give the ways to cut a recording, by name.

    Args:
        every_byte_up_to: Largest recording, in bytes, that is also sent byte by byte.
        all_up_to: Largest recording, in bytes, that is also cut in the many places of its lines; None for any.
    """
    raw = recording.raw
    plans = {"as recorded": _cut(raw, itertools.accumulate(recording.sizes)), "whole": [raw]}
    named = {
        "inside characters": [place for place, byte in enumerate(raw) if 0x80 <= byte <= 0xBF],
        "inside field names": [
            place for found in _FIELD_NAMES.finditer(raw) for place in range(found.start() + 1, found.end() + 2)
        ],
        "between CR and LF": [found.start() + 1 for found in re.finditer(rb"\r\n", raw)],
        "after line ends": [found.end() for found in re.finditer(rb"\r\n|\r|\n", raw)],
        "inside escapes": [found.start() + 1 for found in re.finditer(rb"\\", raw)],
    }
    if all_up_to is not None and len(raw) > all_up_to:
        named = {name: places for name, places in named.items() if name not in MANY_PLACES}
    plans.update({name: _cut(raw, places) for name, places in named.items() if places})
    if len(raw) <= every_byte_up_to:
        plans["every byte"] = [raw[place : place + 1] for place in range(len(raw))]
    return plans


def cut_at(raw: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut a recording at given offsets."""
    return _cut(raw, places)


def _cut(raw: bytes, places: Iterable[int]) -> list[bytes]:
    edges = sorted({0, len(raw), *(place for place in places if 0 < place < len(raw))})
    return [raw[start:end] for start, end in itertools.pairwise(edges)]


# --- the server -------------------------------------------------------------------------------------------------


class PlaybackServer:
    """Answers each request with the pieces set before it, and then hangs up."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.pieces: list[bytes] = []
        self.requests: list[bytes] = []

    async def handle(self, stream: anyio.abc.SocketStream) -> None:
        """Serve one connection."""
        async with stream:
            stream.extra(anyio.abc.SocketAttribute.raw_socket).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.requests.append(await _read_request(stream))
            try:
                for piece in self.pieces:
                    await stream.send(piece)
                    for _ in range(_TURNS):
                        await anyio.lowlevel.checkpoint()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                # The client had its answer, or its error, before the end.
                return


async def _read_request(stream: anyio.abc.SocketStream) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    length = re.search(rb"content-length: *(\d+)", data, re.IGNORECASE)
    end = data.index(b"\r\n\r\n") + 4 + (int(length.group(1)) if length else 0)
    while len(data) < end:
        data += await stream.receive()
    return data


@asynccontextmanager
async def playback() -> AsyncIterator[PlaybackServer]:
    """Run a server on a free port of the loopback interface."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        server = PlaybackServer(listener.extra(anyio.abc.SocketAttribute.local_port))
        tasks.start_soon(listener.serve, server.handle)
        yield server
        tasks.cancel_scope.cancel()


# --- asking -----------------------------------------------------------------------------------------------------


def model_for(recording: Recording, port: int) -> Model:
    """Give a model whose requests go to the server."""
    base = f"http://127.0.0.1:{port}"
    return Model(
        id=recording.model_id,
        api=recording.api,
        provider="recorded",
        base_url=base if recording.api == ANTHROPIC else f"{base}/v1",
    )


async def play(server: PlaybackServer, recording: Recording, pieces: list[bytes], *, idle_limit_s: float) -> JsonObject:
    """Ask for a recording once.

    Returns:
        The final message as JSON; for a list of models, their ids.
    """
    server.pieces = pieces
    if recording.api == LIST_OF_MODELS:
        served = await served_models(f"http://127.0.0.1:{server.port}/v1", api_key="test", limit_s=idle_limit_s)
        return {"models": list(served.ids), "reason": served.reason}
    ids = itertools.count(1)
    client = ModelClient(
        ClientSettings(
            retry=NO_RETRY,
            idle_limit_s=idle_limit_s,
            clock=lambda: CLOCK_MS,
            new_id=lambda: f"call_new_{next(ids)}",
        )
    )
    request = Request([UserMessage(content="Hello")])
    messages: list[JsonObject] = []
    async for event in client(model_for(recording, server.port), request, StreamOptions(api_key="test")):
        if isinstance(event, StreamDone):
            messages.append(to_wire(event.message))
        elif isinstance(event, StreamError):
            messages.append(to_wire(event.error))
    (message,) = messages
    return message
