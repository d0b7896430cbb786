"""A server on loopback that answers one request after the other from a list, in whichever protocol it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any

CHAT, RESPONSES, ANTHROPIC = "openai-completions", "openai-responses", "anthropic-messages"
HELD_LIMIT_S = 30
_ENDINGS = {"/chat/completions": CHAT, "/responses": RESPONSES, "/messages": ANTHROPIC}
OVERFLOW = {
    CHAT: {"message": "This model's maximum context length is 128000 tokens.", "code": "context_length_exceeded"},
    RESPONSES: {"message": "Your input exceeds the context window of this model.", "code": "context_length_exceeded"},
    ANTHROPIC: {"message": "prompt is too long: 213462 tokens > 200000 maximum", "type": "invalid_request_error"},
}
# A compaction that cuts a turn asks twice at the same time: about what came before, and about the turn's beginning.
SUMMARIES = {"<conversation>": "What was said before.", "# Conversation": "How this turn began."}
_ERRORS = {401: "authentication_error", 500: "api_error", 503: "overloaded_error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the server.

    Args:
        text: What the model says.
        thinking: What it thinks before it; in the protocols of Anthropic and of Responses, with a signature.
        calls: Tools it calls, name and arguments; ids are made of the answer's number.
        tokens: Input tokens it counted.
        status: An error instead, with this status; 400 is a context that is too long.
        cut: Whether the connection breaks after the text.
        model: Model that says it answered.
        held: Whether it waits after the text, until the client hangs up or `MockServer.release` is set.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Json], ...] = ()
    tokens: int = 100
    status: int = 200
    cut: bool = False
    model: str = "m"
    held: bool = False


class MockServer:
    """Serves answers until it is closed; a context manager.

    Args:
        answers: In the order of the requests; requests for a summary get one of `SUMMARIES`.
        name: What the ids of its messages and calls begin with; two servers that talk in one session need two names.
        summaries: Text in a request and the answer it gets, whenever it comes.

    Attributes:
        requests: The bodies of all requests, in their order.
    """

    def __init__(self, answers: list[Answer], *, name: str = "n", summaries: dict[str, str] | None = None) -> None:
        self.answers = answers
        self.name = name
        self.requests: list[Json] = []
        self._by_text = SUMMARIES if summaries is None else summaries
        self.asked = 0
        self.summaries = 0
        self.release = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> MockServer:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Address without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, body: Json) -> tuple[int, Answer]:
        """Give the number of a request and its answer."""
        with self._lock:
            self.requests.append(body)
            asked = json.dumps(body)
            summary = next((text for mark, text in self._by_text.items() if mark in asked), None)
            if summary is not None:
                self.summaries += 1
                return 0, Answer(text=summary)
            number = self.asked
            self.asked += 1
            return number, self.answers[number] if number < len(self.answers) else Answer(status=401)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                api = next(api for ending, api in _ENDINGS.items() if self.path.split("?")[0].endswith(ending))
                number, answer = server.take(body)
                self.close_connection = True
                try:
                    self._refuse(api, answer) if answer.status != 200 else self._stream(api, number, answer)
                except (BrokenPipeError, ConnectionResetError):
                    return

            def _refuse(self, api: str, answer: Answer) -> None:
                error = OVERFLOW[api]
                if answer.status != 400:
                    error = {"message": f"status {answer.status}", "type": _ERRORS[answer.status]}
                body = json.dumps({"type": "error", "error": error}).encode()
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _stream(self, api: str, number: int, answer: Answer) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                opening, ending = STREAMS[api](f"{server.name}{number}", answer)
                for event in opening:
                    self.wfile.write(_line(event))
                self.wfile.flush()
                if answer.cut:
                    return
                if answer.held:
                    self._hold()
                for event in ending:
                    self.wfile.write(_line(event))

            def _hold(self) -> None:
                """Wait to be released; a write fails once the client has hung up."""
                for _ in range(HELD_LIMIT_S * 20):
                    if server.release.wait(0.05):
                        return
                    self.wfile.write(b": wait\n\n")
                    self.wfile.flush()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


def _line(event: Json) -> bytes:
    if isinstance(event, str):
        return f"data: {event}\n\n".encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def _calls(name: str, answer: Answer) -> Iterator[tuple[int, str, str, str]]:
    for place, (tool, arguments) in enumerate(answer.calls):
        yield place, f"call_{name}_{place}", tool, json.dumps(arguments)


def _chat(name: str, answer: Answer) -> tuple[list[Json], list[Json]]:
    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": name, "object": "chat.completion.chunk", "created": 1, "model": answer.model, "choices": [choice]}

    opening = [chunk({"role": "assistant", "content": answer.text})]
    ending = [
        chunk({"tool_calls": [{"index": n, "id": i, "type": "function", "function": {"name": t, "arguments": a}}]})
        for n, i, t, a in _calls(name, answer)
    ]
    usage = {"prompt_tokens": answer.tokens, "completion_tokens": 10, "total_tokens": answer.tokens + 10}
    ending.append(chunk({}, "tool_calls" if answer.calls else "stop"))
    return opening, [*ending, {**chunk({}), "choices": [], "usage": usage}, "[DONE]"]


def _responses(name: str, answer: Answer) -> tuple[list[Json], list[Json]]:
    head = {"id": f"resp_{name}", "object": "response", "created_at": 1, "model": answer.model, "status": "in_progress"}
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    item = {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed", "content": [part]}
    at = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    opening: list[Json] = [{"type": "response.created", "response": {**head, "output": []}}]
    ending: list[Json] = []
    output: list[Json] = []
    if answer.thinking:
        thought: Json = {"type": "reasoning", "id": f"rs_{name}", "encrypted_content": f"sealed {name}", "content": []}
        thought["summary"] = [{"type": "summary_text", "text": answer.thinking}]
        opening += [
            {"type": "response.output_item.added", "output_index": 0, "item": {**thought, "summary": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": thought},
        ]
        output.append(thought)
    at["output_index"] = len(output)
    if answer.text:
        begun = {**item, "status": "in_progress", "content": []}
        opening += [
            {"type": "response.output_item.added", "output_index": len(output), "item": begun},
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **at, "delta": answer.text},
        ]
        ending += [
            {"type": "response.output_text.done", **at, "text": answer.text},
            {"type": "response.content_part.done", **at, "part": part},
            {"type": "response.output_item.done", "output_index": len(output), "item": item},
        ]
        output.append(item)
    for place, call_id, tool, arguments in _calls(name, answer):
        call = {"type": "function_call", "id": f"fc_{name}_{place}", "call_id": call_id, "name": tool}
        where = {"output_index": len(output), "item_id": call["id"]}
        done = {**call, "arguments": arguments, "status": "completed"}
        begun = {**call, "arguments": "", "status": "in_progress"}
        ending += [
            {"type": "response.output_item.added", "output_index": len(output), "item": begun},
            {"type": "response.function_call_arguments.delta", **where, "delta": arguments},
            {"type": "response.function_call_arguments.done", **where, "arguments": arguments},
            {"type": "response.output_item.done", "output_index": len(output), "item": done},
        ]
        output.append(done)
    usage = {"input_tokens": answer.tokens, "output_tokens": 10, "total_tokens": answer.tokens + 10}
    ended = {**head, "status": "completed", "output": output, "usage": usage}
    ending.append({"type": "response.completed", "response": ended})
    events = [*opening, *ending]
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return opening, ending


def _delta(index: int, delta: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _anthropic(name: str, answer: Answer) -> tuple[list[Json], list[Json]]:
    head = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": answer.model, "content": []}
    usage = {"input_tokens": answer.tokens, "output_tokens": 1}
    message = {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}
    opening: list[Json] = [{"type": "message_start", "message": message}]
    ending: list[Json] = []
    first = 0
    if answer.thinking:
        thought = {"type": "thinking", "thinking": "", "signature": ""}
        opening += [
            {"type": "content_block_start", "index": 0, "content_block": thought},
            _delta(0, {"type": "thinking_delta", "thinking": answer.thinking}),
            _delta(0, {"type": "signature_delta", "signature": f"sealed {name}"}),
            {"type": "content_block_stop", "index": 0},
        ]
        first = 1
    if answer.text:
        opening += [
            {"type": "content_block_start", "index": first, "content_block": {"type": "text", "text": ""}},
            _delta(first, {"type": "text_delta", "text": answer.text}),
        ]
        ending.append({"type": "content_block_stop", "index": first})
        first += 1
    for place, call_id, tool, arguments in _calls(name, answer):
        index = first + place
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
        ending += [
            {"type": "content_block_start", "index": index, "content_block": block},
            _delta(index, {"type": "input_json_delta", "partial_json": arguments}),
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    ending.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 10}})
    return opening, [*ending, {"type": "message_stop"}]


STREAMS = {CHAT: _chat, RESPONSES: _responses, ANTHROPIC: _anthropic}
