"""`run` against a server: the whole way from models.json and the key to the stored answer."""

import json
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest

from pi_loop.target import PROTOCOLS
from tests.cli.launcher import Terminal
from tests.cli.provider_server import KEY, QuietHandler, serving, settle_in
from tests.loop.provider_support import sse, text_stream


class Server(HTTPServer):
    """A provider that answers with what it was given, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[tuple[str, dict[str, str], dict]] = []


class Handler(QuietHandler):
    """Answers one request."""

    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, dict(self.headers), json.loads(body)))
        status, answer = self.server.answers.pop(0)
        self.answer(status, "text/event-stream" if status == 200 else "application/json", answer)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.fixture
def home(shell: Terminal, server: Server) -> Terminal:
    """Return a shell whose Pi has three providers at the server, one per protocol."""
    settle_in(shell, server, {f"mock-{api.partition('-')[2]}": api for api in PROTOCOLS})
    # A proxy that is not there must not come between.
    shell.env["HTTP_PROXY"] = "http://127.0.0.1:9"
    (shell.folder / ".config" / "pi-session").mkdir(parents=True)
    (shell.folder / ".config" / "pi-session" / "config.toml").write_text("[retry]\nbaseDelayMs = 1\n")
    return shell


@pytest.mark.parametrize("api", PROTOCOLS)
def test_an_answer_of_each_protocol_is_asked_for_and_stored(home: Terminal, server: Server, api: str) -> None:
    server.answers = [(200, text_stream(api, "Bonjour."))]
    ran = home.ok("run", "Hello", "--model", f"mock-{api.partition('-')[2]}/m")
    assert ran.out == "Bonjour.\n"
    path, headers, body = server.asked[0]
    assert path.startswith("/")
    assert KEY in "".join(headers.values())
    assert "Hello" in json.dumps(body)
    assert "read" in json.dumps(body["tools"])
    assert KEY not in ran.out + ran.err + (home.folder / "sessions.db").read_bytes().decode("latin-1")


def test_a_rate_limit_is_waited_out_and_a_refused_key_is_not(home: Terminal, server: Server) -> None:
    limited = json.dumps({"error": {"message": "too many tokens per minute", "type": "rate_limit_error"}}).encode()
    refused = json.dumps({"error": {"message": f"invalid key {KEY}"}}).encode()
    server.answers = [(429, limited), (200, text_stream("openai-completions", "Now.")), (401, refused)]
    ran = home.ok("run", "Hello", "--model", "mock-completions/m")
    assert ran.out == "Now.\n"
    assert "asking again in" in ran.err
    ran = home.run("run", "again", "--last")
    assert ran.code == 4
    assert "Error: " in ran.err
    assert KEY not in ran.err
    assert len(server.asked) == 3


def test_a_tool_loop_over_the_wire(home: Terminal, server: Server) -> None:
    Path(home.cwd, "a.txt").write_text("alpha")
    call = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": '{"path":"a.txt"}'}}
    first = sse(
        {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        "[DONE]",
    )
    server.answers = [(200, first), (200, text_stream("openai-completions", "It says alpha."))]
    assert home.ok("run", "Read it", "--model", "mock-completions/m").out == "It says alpha.\n"
    results = [message for message in server.asked[1][2]["messages"] if message["role"] == "tool"]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [("c1", "alpha")]
