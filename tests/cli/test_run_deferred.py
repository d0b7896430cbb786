"""Answers that come later, from the command line: a server that takes its time, nobody there meanwhile."""

import json
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import Terminal
from tests.cli.provider_server import KEY, QuietHandler, serving, settle_in
from tests.loop.provider_support import text_stream

TEXT = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "It says alpha."}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"path":"a.txt"}'}


class Background(HTTPServer):
    """A provider with background responses: each is `queued` for some looks, then what it is given."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.queue: list[dict[str, Any]] = []
        self.looks_until_done = 0
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | bytes]:
        """Answer one request."""
        self.asked.append((method, path, body))
        if method == "POST" and path.endswith("/cancel"):
            return 200, self.object("cancelled")
        if method == "POST" and not body.get("background"):
            return 200, text_stream("openai-responses", "Read.")
        if method == "POST":
            return 200, self.object("queued")
        if not self.queue:
            return 404, {"error": {"message": "Response with id 'resp_7' not found."}}
        if self.looks_until_done:
            self.looks_until_done -= 1
            return 200, self.object("in_progress")
        return 200, {**self.object("completed"), **self.queue.pop(0)}

    def object(self, status: str) -> dict[str, Any]:
        return {"id": "resp_7", "object": "response", "created_at": 1_772_000_000, "status": status, "output": []}


class Handler(QuietHandler):
    """Passes requests on to the server."""

    server: Background

    def do_GET(self) -> None:
        self.reply("GET", {})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.reply("POST", json.loads(self.rfile.read(length) or b"{}"))

    def reply(self, method: str, body: dict[str, Any]) -> None:
        assert self.headers["authorization"] == f"Bearer {KEY}"
        status, given = self.server.answer(method, self.path, body)
        if isinstance(given, bytes):
            self.answer(status, "text/event-stream", given)
        else:
            self.answer(status, "application/json", json.dumps(given).encode())


@pytest.fixture
def server() -> Iterator[Background]:
    with serving(Background()) as server:
        yield server


@pytest.fixture
def home(shell: Terminal, server: Background, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a shell with a provider at the server and a session whose answer is to come later."""
    monkeypatch.setattr("pi_loop.providers.deferred_handles.POLL_AFTER_MS", 5)
    settle_in(shell, server, {"mock": "openai-responses", "chat": "openai-completions"})
    Path(shell.cwd, "a.txt").write_text("alpha")
    ran = shell.ok("run", "Read it", "--model", "mock/m", "--deferred")
    assert ran.out == ""
    assert "The last answer is to come later: mock/m, resp_7" in ran.err
    assert "--recover continue" in ran.err
    assert "--recover close" in ran.err
    return shell


def spoken(shell: Terminal) -> list[tuple[str, str]]:
    """Return roles and texts of the context."""
    messages = json.loads(shell.ok("context", "--json").out)["messages"]
    return [
        (one["role"], shown(one["content"]))
        for one in (given["message"] for given in messages)
        if one["role"] != "system"
    ]


def shown(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", f"<{block['type']}>") for block in content)


def test_the_answer_is_waited_for_and_its_tools_run(home: Terminal, server: Background) -> None:
    (_, path, body) = server.asked[0]
    assert path == "/responses"
    assert (body["background"], body["store"], body["stream"]) == (True, True, False)
    server.queue = [{"output": [CALL]}]
    server.looks_until_done = 2
    ran = home.ok("run", "--last", "--recover", "continue")
    assert ran.out == "Read.\n"
    assert [method for method, _, _ in server.asked] == ["POST", "GET", "GET", "GET", "POST"]
    # The results go out as ever.
    assert "alpha" in json.dumps(server.asked[-1][2]["input"])
    assert server.asked[-1][2]["stream"] is True
    assert [role for role, _ in spoken(home)] == ["user", "assistant", "toolResult", "assistant"]
    assert home.ok("run", "--last", "--recover", "continue").out == ""
    assert len(server.asked) == 5
    assert KEY.encode() not in (home.folder / "sessions.db").read_bytes()


def test_a_prompt_beside_it_is_sent_once_the_answer_is_there(home: Terminal, server: Background) -> None:
    server.queue = [{"output": [TEXT]}]
    ran = home.ok("run", "And now?", "--last", "--recover", "continue")
    assert ran.out == "It says alpha.\nRead.\n"
    assert [text for _, text in spoken(home)] == ["Read it", "It says alpha.", "And now?", "Read."]


def test_undo_waits_for_it_again(home: Terminal, server: Background) -> None:
    server.queue = [{"output": [TEXT]}, {"output": [TEXT]}]
    home.ok("run", "--last", "--recover", "continue")
    home.ok("undo")
    assert home.ok("run", "--last", "--recover", "continue").out == "It says alpha.\n"


def test_giving_it_up_tells_the_provider_and_keeps_the_question(home: Terminal, server: Background) -> None:
    ran = home.ok("run", "--last", "--recover", "close")
    assert "is given up" in ran.err
    assert server.asked[-1][:2] == ("POST", "/responses/resp_7/cancel")
    assert spoken(home) == [("user", "Read it")]
    assert home.ok("run", "Again, now.", "--last").out == "Read.\n"


def test_giving_it_up_needs_no_provider(home: Terminal, server: Background) -> None:
    del home.env["MOCK_KEY"]
    ran = home.ok("run", "--last", "--recover", "close", "--script", script(home, "unused"))
    assert "is given up" in ran.err
    assert spoken(home) == [("user", "Read it")]


def script(shell: Terminal, *steps: Any) -> str:
    path = Path(shell.cwd, "steps.json")
    path.write_text(json.dumps(list(steps)))
    return str(path)


def test_an_answer_that_is_gone_is_said_and_nothing_has_changed(home: Terminal, server: Background) -> None:
    before = spoken(home)
    ran = home.run("run", "Next?", "--last", "--recover", "continue")
    assert ran.code == 1
    assert "mock does not have the answer resp_7 any more" in ran.err
    assert "--recover close" in ran.err
    assert "The prompt was not sent" in ran.err
    assert spoken(home) == before


def test_a_prompt_without_a_word_about_it_goes_on_without_it_and_says_so(home: Terminal, server: Background) -> None:
    ran = home.ok("run", "Never mind.", "--last")
    assert "passed over" in ran.err
    assert [text for role, text in spoken(home) if role == "user"] == ["Read it", "Never mind."]
    sent = server.asked[-1][2]["input"]
    assert [item["role"] for item in sent if "role" in item][1:] == ["user"] * (len(sent) - 1)
    home.ok("undo")
    server.queue = [{"output": [TEXT]}]
    assert home.ok("run", "--last", "--recover", "continue").out == "It says alpha.\n"


def test_an_answer_that_failed_ends_the_run_as_failed_and_can_be_asked_again(
    home: Terminal, server: Background
) -> None:
    server.queue = [{"status": "failed", "error": {"code": "invalid_prompt", "message": "refused"}}]
    ran = home.run("run", "--last", "--recover", "continue")
    assert ran.code == 4
    assert "refused" in ran.err
    assert home.ok("run", "Once more.", "--last").out == "Read.\n"


def test_json_lines_have_the_handle_and_later_the_answer(home: Terminal, server: Background) -> None:
    ran = home.ok("run", "Read it", "--model", "mock/m", "--deferred", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    ended = [event["message"] for event in events if event["type"] == "message_end"][-1]
    assert (ended["stopReason"], ended["deferred"]["id"]) == ("deferred", "resp_7")
    server.queue = [{"output": [TEXT]}]
    ran = home.ok("run", "--last", "--recover", "continue", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert events[-1]["type"] == "run_end"
    assert events[-1]["status"] == "done"


def test_models_that_cannot_and_runs_that_store_nothing_are_refused_before_anything_is_asked(
    home: Terminal, server: Background
) -> None:
    asked, sessions = len(server.asked), home.ok("ls").out
    ran = home.run("run", "Hello", "--model", "chat/m", "--deferred")
    assert (ran.code, "cannot come later" in ran.err) == (1, True)
    ran = home.run("run", "Hello", "--model", "mock/m", "--deferred", "--no-session")
    assert (ran.code, "needs a session" in ran.err) == (2, True)
    assert (len(server.asked), home.ok("ls").out) == (asked, sessions)


def test_it_leaves_and_comes_back_in_a_session_file(home: Terminal, server: Background) -> None:
    home.ok("export", "-o", "talk.jsonl")
    home.env["PI_SESSION_DB"] = str(home.folder / "other.db")
    home.ok("import", "talk.jsonl")
    server.queue = [{"output": [TEXT]}]
    assert home.ok("run", "--last", "--recover", "continue").out == "It says alpha.\n"


def test_what_is_appended_behind_it_does_not_lose_it(home: Terminal, server: Background) -> None:
    home.ok("append", "meanwhile")
    server.queue = [{"output": [TEXT]}]
    assert home.ok("run", "--last", "--recover", "continue").out == "It says alpha.\n"
    assert [text for _, text in spoken(home)] == ["Read it", "meanwhile", "It says alpha."]


def test_giving_up_needs_no_model_that_is_known(home: Terminal, server: Background) -> None:
    (home.folder / ".pi" / "agent" / "models.json").write_text("{}")
    ran = home.ok("run", "--last", "--recover", "close")
    assert "is given up" in ran.err
    assert "The provider was not told" in ran.err
    assert home.ok("run", "--last", "--recover", "close").err.startswith("There is no cut-off run")


def test_an_answer_that_ended_at_the_token_limit_is_told(home: Terminal, server: Background) -> None:
    text = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Half"}]}
    limit = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    server.queue = [{**limit, "output": [text]}]
    ran = home.ok("run", "--last", "--recover", "continue")
    assert ran.out == "Half\n"
    assert "The answer was cut off at the token limit" in ran.err
    assert "(cut off at the token limit)" in home.ok("log").out
