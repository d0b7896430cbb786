"""Answers that come later over the wire: asked for, fetched, cancelled, and everything that may go wrong meanwhile."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import httpx
import pytest

from pi_loop.bodies import BodyOptions, body_for
from pi_loop.providers.client import ClientSettings
from pi_loop.providers.deferred import DeferredAnswerError, DeferredClient
from pi_loop.request import build_request
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_loop.types import Model, StreamOptions
from pi_sessions.messages import AssistantMessage, DeferredHandle, SystemMessage, ToolDeclaration, UserMessage
from tests.loop.provider_support import BACKENDS, KEY, NOW_MS, Answer, ScriptedHttp, model
from tests.loop.provider_support import run as ask
from tests.loop.request_support import GPT, broken_rules, given, user

JSON = {"content-type": "application/json"}
WAITS = {"id": "resp_1", "object": "response", "created_at": 1_772_000_000, "status": "queued", "output": []}
TEXT = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "At last."}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look_up", "arguments": '{"a":1}'}
USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
DONE = {**WAITS, "status": "completed", "output": [TEXT], "usage": USAGE}
HANDLE = DeferredHandle(provider="demo", model_id="demo-model", api=RESPONSES, id="resp_1", poll_after_ms=2000)
LATER = StreamOptions(api_key=KEY, deferred=True)


def reply(value: object, status: int = 200) -> Answer:
    """Return an answer that is one JSON value."""
    return Answer(status=status, pieces=[json.dumps(value).encode()], headers=JSON)


class Asked:
    """What a look at the provider gave: the message or the error, the requests, the waits in seconds."""

    def __init__(self) -> None:
        self.message: AssistantMessage | None = None
        self.error: DeferredAnswerError | None = None
        self.http = ScriptedHttp([])
        self.waits: list[float] = []


def look(
    answers: Sequence[Answer],
    what: str = "fetch",
    *,
    handle: DeferredHandle = HANDLE,
    key: str | None = KEY,
    backend: str = "asyncio",
) -> Asked:
    """Fetch or cancel once."""
    asked = Asked()
    asked.http = http = ScriptedHttp(answers)

    async def find(wanted: DeferredHandle) -> tuple[Model, StreamOptions]:
        return model(RESPONSES, id=wanted.model_id), StreamOptions(api_key=key)

    async def sleep(seconds: float) -> None:
        asked.waits.append(seconds)

    settings = ClientSettings(
        clock=lambda: NOW_MS,
        random=lambda: 0.0,
        new_id=lambda: "new_1",
        sleep=sleep,
        open_http=lambda: httpx.AsyncClient(transport=http),
    )

    async def main() -> None:
        client = DeferredClient(find, lambda _model: settings)
        try:
            if what == "fetch":
                asked.message = await client.fetch(handle)
            else:
                await client.cancel(handle)
        except DeferredAnswerError as error:
            asked.error = error

    anyio.run(main, backend=backend)
    return asked


# --- asking for one ---------------------------------------------------------------------------------------------


def test_the_request_is_kept_at_the_provider_and_not_streamed() -> None:
    made = body_for(build_request(given(user("a")), GPT), BodyOptions(deferred=True))
    assert broken_rules(made, GPT) == []
    assert (made["background"], made["store"], made["stream"]) == (True, True, False)
    now = body_for(build_request(given(user("a")), GPT), BodyOptions())
    assert ("background" in now, now["store"], now["stream"]) == (False, False, True)


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_what_comes_back_is_a_handle(status: str) -> None:
    outcome = ask([reply({**WAITS, "status": status})], asked=model(RESPONSES), options=LATER)
    assert [event.type for event in outcome.events] == ["start", "done"]
    assert outcome.message.stop_reason == "deferred"
    assert outcome.message.deferred == HANDLE
    assert (outcome.message.raw_stop_reason, outcome.message.response_id) == (status, "resp_1")
    assert outcome.message.content == []


def test_an_answer_that_is_there_at_once_is_taken_at_once() -> None:
    outcome = ask([reply(DONE)], asked=model(RESPONSES), options=LATER)
    assert (outcome.message.stop_reason, outcome.message.text) == ("stop", "At last.")


def test_a_server_that_says_in_progress_of_a_whole_answer_is_still_believed_when_nothing_was_to_come_later() -> None:
    outcome = ask(
        [reply({**DONE, "status": "in_progress"})], asked=model(RESPONSES), options=StreamOptions(api_key=KEY)
    )
    assert (outcome.message.stop_reason, outcome.message.text) == ("stop", "At last.")


@pytest.mark.parametrize("api", [ANTHROPIC, CHAT])
def test_other_protocols_refuse_before_anything_is_sent(api: str) -> None:
    outcome = ask([], asked=model(api), options=LATER)
    assert outcome.message.stop_reason == "error"
    assert "cannot come later" in (outcome.message.error_message or "")


def test_names_of_tools_that_were_sent_otherwise_are_in_the_handle_and_come_back() -> None:
    tools = [ToolDeclaration(name="look.up", parameters={"type": "object"})]
    messages = [SystemMessage(content="Be brief.", tools_added=tools), UserMessage(content="go")]
    outcome = ask([reply(WAITS)], asked=model(RESPONSES), options=LATER, messages=messages)
    handle = outcome.message.deferred
    assert handle is not None
    sent = json.loads(outcome.http.requests[0].content)["tools"][0]["name"]
    assert sent != "look.up"
    # The handle goes through the store as JSON.
    stored = DeferredHandle.model_validate_json(handle.model_dump_json())
    found = look([reply({**DONE, "output": [{**CALL, "name": sent}]})], handle=stored)
    assert found.message is not None
    assert [call.name for call in found.message.tool_calls] == ["look.up"]


# --- fetching ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_finished_answer_is_the_message_a_stream_would_have_given(backend: str) -> None:
    found = look([reply({**DONE, "output": [TEXT, CALL]})], backend=backend)
    message = found.message
    assert message is not None
    assert (message.text, message.stop_reason, message.response_id) == ("At last.", "toolUse", "resp_1")
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [("c1|fc_1", "look_up", {"a": 1})]
    assert (message.usage.input, message.usage.output) == (7, 3)
    # It is as old as its request.
    assert message.timestamp == 1_772_000_000_000
    (request,) = found.http.requests
    assert (request.method, str(request.url)) == ("GET", "https://demo.invalid/v1/responses/resp_1")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.content == b""


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_answer_that_is_not_there_is_none(status: str) -> None:
    found = look([reply({**WAITS, "status": status})])
    assert (found.message, found.error) == (None, None)


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "broke"}}, "error", "broke"),
        ({"status": "cancelled"}, "error", "cancelled"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [TEXT]},
            "length",
            "",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "error", "content_filter"),
    ],
)
def test_an_answer_that_ended_badly_is_an_answer(answer: dict[str, Any], reason: str, words: str) -> None:
    found = look([reply({**WAITS, **answer})])
    assert found.message is not None
    assert found.message.stop_reason == reason
    assert words in (found.message.error_message or "")


def test_what_passes_is_tried_again_a_few_times() -> None:
    lost = Answer(error=httpx.ConnectError("gone"))
    busy = Answer(status=503, pieces=[b"{}"], headers={**JSON, "retry-after": "3"})
    found = look([lost, busy, reply(DONE)])
    assert found.message is not None
    assert found.waits == [1.0, 3.0]
    found = look([lost] * 4)
    assert found.error is not None
    assert "could not be asked" in found.error.message
    assert "still waits" in (found.error.hint or "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply({"error": {"message": "no such response"}}, 404), "does not have the answer resp_1 any more"),
        (reply({"error": {"message": f"bad key {KEY}"}}, 401), "could not be asked"),
        (Answer(pieces=[b"<html>"], headers={"content-type": "text/html"}), "could not be asked"),
        (Answer(pieces=[b"[" * 100_000], headers=JSON), "could not be asked"),
        (reply({"hello": "world"}), "is no answer"),
        (Answer(status=302, headers={"location": "https://evil.invalid/"}), "could not be asked"),
    ],
)
def test_what_is_no_answer_is_an_error_without_the_key(answer: Answer, words: str) -> None:
    found = look([answer] * 4)
    assert found.message is None
    assert found.error is not None
    assert words in found.error.message
    assert KEY not in found.error.message + (found.error.hint or "")


@pytest.mark.parametrize("bad", ["", "..", "a/b", "../files"])
def test_a_handle_whose_id_is_a_path_is_not_asked_for(bad: str) -> None:
    found = look([], handle=HANDLE.model_copy(update={"id": bad}))
    assert found.error is not None
    assert found.http.requests == []


def test_odd_ids_are_one_part_of_the_address() -> None:
    found = look([reply(DONE)], handle=HANDLE.model_copy(update={"id": "a?b#c d%2e"}))
    assert found.http.requests[0].url.raw_path == b"/v1/responses/a%3Fb%23c%20d%252e"


def test_without_a_key_and_for_other_protocols_nothing_is_sent() -> None:
    found = look([], key=None)
    assert found.error is not None
    assert "API key" in found.error.message
    found = look([], handle=HANDLE.model_copy(update={"api": ANTHROPIC}))
    assert found.error is not None
    assert "cannot be fetched by this program" in found.error.message


# --- giving up --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [reply({**WAITS, "status": "cancelled"}), Answer(status=204), reply({"error": {"message": "?"}}, 404)]
)
def test_cancelling_is_told_once_and_an_answer_that_is_gone_is_fine(answer: Answer) -> None:
    found = look([answer], "cancel")
    assert found.error is None
    (request,) = found.http.requests
    assert (request.method, str(request.url)) == ("POST", "https://demo.invalid/v1/responses/resp_1/cancel")


def test_a_provider_that_cannot_be_told_is_an_error() -> None:
    found = look([reply({"error": {"message": "no"}}, 401)], "cancel")
    assert found.error is not None
