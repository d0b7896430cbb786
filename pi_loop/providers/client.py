"""ModelClient: the StreamFn that asks real providers, in any of the three protocols.

Invariants: it never raises, a failure is the final message; a key is never in a message, an error text or a log; a
request is sent again only before the first event went out, because a started response cannot be taken back (whoever
runs the turn restarts it, see `pi_loop.providers.retry`); keep-alives do not count as progress.

Source: Pi 1.6.0, "One assistant response", retries, timeouts.
"""

import json
import random as chance
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeAlias

import anyio
import httpx

from pi_loop.bodies import body_for
from pi_loop.events import AssistantMessageEvent
from pi_loop.hooks import error_text, settle
from pi_loop.providers.anthropic import AnthropicAssembler
from pi_loop.providers.assembly import Assembler, Events, stream_error
from pi_loop.providers.deferred_handles import LATER, handle_of
from pi_loop.providers.endpoints import endpoint, missing_key, request_headers, secrets_of
from pi_loop.providers.errors import Failure, ProviderError, classify, fail
from pi_loop.providers.http_answers import json_object, media_type, refusal_of
from pi_loop.providers.openai_chat import ChatAssembler
from pi_loop.providers.openai_responses import ResponsesAssembler
from pi_loop.providers.retry import RetryPolicy, given_up, wait_ms
from pi_loop.providers.sse import EventDecoder, ServerEvent
from pi_loop.providers.transport import Exchange, OpenHttp, aborted_failure, http_client
from pi_loop.request import build_request, wire_messages
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES, target_of
from pi_loop.types import Clock, Model, Request, StreamOptions, wall_clock_ms
from pi_sessions.messages import JsonObject, Number

ASSEMBLERS: Mapping[str, type[Assembler]] = {
    ANTHROPIC: AnthropicAssembler,
    RESPONSES: ResponsesAssembler,
    CHAT: ChatAssembler,
}
IDLE_LIMIT_S = 300.0
# Once the answer is complete only usage can follow; servers that then forget to hang up are not waited for.
CLOSING_IDLE_S = 5.0
Sleep: TypeAlias = Callable[[float], Awaitable[object]]
EventStream: TypeAlias = AsyncGenerator[AssistantMessageEvent, None]
OnRetry: TypeAlias = Callable[[Failure, Number, int], None]


def _new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a client behaves; the last ones are for tests.

    Args:
        retry: How often and after how long a request is sent again.
        idle_limit_s: Longest time without progress, seconds; `StreamOptions.timeout_ms` counts before it.
        use_environment_proxies: Whether to obey HTTP_PROXY and its like.
        on_retry: Hears of each retry: why, milliseconds of wait, requests sent so far.
        clock: Unix milliseconds.
        sleep: Waits seconds.
        random: Gives a number from 0 to 1.
        new_id: Gives ids for tool calls that come without one.
        open_http: Makes the HTTP client.
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    idle_limit_s: float = IDLE_LIMIT_S
    use_environment_proxies: bool = False
    on_retry: OnRetry | None = None
    clock: Clock = wall_clock_ms
    sleep: Sleep = anyio.sleep
    random: Callable[[], float] = chance.random
    new_id: Callable[[], str] = _new_call_id
    open_http: OpenHttp | None = None


class ModelClient:
    """A StreamFn over HTTP.

    As an async context manager it keeps its connections between requests, within one event loop; without, each call
    has its own.
    """

    def __init__(self, settings: ClientSettings | None = None) -> None:
        self._settings = settings or ClientSettings()
        self._shared: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._shared = self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            with anyio.CancelScope(shield=True):
                await shared.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._settings.open_http is not None:
            return self._settings.open_http()
        return http_client(use_environment_proxies=self._settings.use_environment_proxies)

    async def __call__(self, model: Model, request: Request, options: StreamOptions, /) -> EventStream:
        """Ask a model; see `StreamFn`."""
        settings = self._settings
        secrets = secrets_of(model, options)
        assembler_type = ASSEMBLERS.get(model.api, ChatAssembler)
        call = _Call(model, options, settings)
        http: httpx.AsyncClient | None = self._shared
        try:
            call.prepare(request)
            http = http or self._open()
            async with aclosing(call.ask(http)) as events:
                async for event in events:
                    yield event
            return
        except ProviderError as error:
            failure = error.failure
        except Exception as error:  # noqa: BLE001 - a StreamFn does not raise; a hook's or our own mistake included
            failure = Failure("internal", f"{type(error).__name__}: {error_text(error)}")
        finally:
            if http is not None and http is not self._shared:
                with anyio.CancelScope(shield=True):
                    await http.aclose()
        assembler = call.assembler or assembler_type(model, timestamp=settings.clock(), new_id=settings.new_id)
        yield assembler.fail(failure.without(secrets), settings.clock())


@dataclass(slots=True)
class _Call:
    """One call of the StreamFn: its request, and as many attempts as it takes."""

    model: Model
    options: StreamOptions
    settings: ClientSettings
    assembler: Assembler | None = None
    _body: JsonObject = field(default_factory=dict)
    _declared_name: Callable[[str], str] = str
    _tool_names: dict[str, str] = field(default_factory=dict)
    _progress: float = 0.0

    def prepare(self, request: Request) -> None:
        """Build the body.

        Raises:
            ProviderError: the protocol is unknown or cannot do what is asked for, or the key is missing.
        """
        if self.model.api not in ASSEMBLERS:
            known = ", ".join(ASSEMBLERS)
            raise fail("bad_request", f"The protocol {self.model.api!r} of {self.model.id} is not one of {known}")
        if self.options.deferred and self.model.api not in LATER:
            raise fail("bad_request", f"Answers over {self.model.api} cannot come later, only over {', '.join(LATER)}")
        reason = missing_key(self.model, self.options)
        if reason is not None:
            raise fail("auth", reason)
        built = build_request(wire_messages(request.messages), target_of(self.model))
        self._body = dict(body_for(built, self.options))
        sampling = (self.model.model_extra or {}).get("samplingParams")
        if isinstance(sampling, dict) and self.model.api != ANTHROPIC:
            self._body.update(sampling)
        self._declared_name, self._tool_names = built.declared_name, built.tool_names

    async def ask(self, http: httpx.AsyncClient) -> EventStream:
        """Send the request, again where that may help, and give the response's events."""
        body = self._body
        if self.options.on_payload is not None:
            replaced = await settle(self.options.on_payload(body, self.model))
            body = body if replaced is None else replaced
        # Surrogates that a hook may have brought in would fail to encode.
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        attempt = 0
        while True:
            attempt += 1
            try:
                async with aclosing(self._attempt(http, content)) as events:
                    async for event in events:
                        yield event
                return
            except ProviderError as error:
                failure = error.failure
            await self._wait_or_give_up(failure, attempt)

    async def _wait_or_give_up(self, failure: Failure, attempt: int) -> None:
        longest = self.options.max_retry_delay_ms
        wait = wait_ms(failure, attempt, self.settings.retry, random=self.settings.random, longest_asked_ms=longest)
        if wait is None or self.assembler is None or self.assembler.started:
            raise ProviderError(given_up(failure, longest))
        if self.settings.on_retry is not None:
            self.settings.on_retry(failure.without(secrets_of(self.model, self.options)), wait, attempt)
        signal = self.options.signal
        if signal is None:
            await self.settings.sleep(wait / 1000)
            return
        with signal.cancels():
            await self.settings.sleep(wait / 1000)
        if signal.aborted:
            raise ProviderError(aborted_failure())

    async def _attempt(self, http: httpx.AsyncClient, content: bytes) -> EventStream:
        """Send the request once and give the response's events."""
        options = self.options
        self.assembler = assembler = ASSEMBLERS[self.model.api](
            self.model,
            timestamp=self.settings.clock(),
            new_id=self.settings.new_id,
            declared_name=self._declared_name,
        )
        if options.signal is not None and options.signal.aborted:
            raise ProviderError(aborted_failure())
        self._progress = anyio.current_time()
        exchange = Exchange(http, options.signal)
        try:
            response = await exchange.send(
                endpoint(self.model), request_headers(self.model, options), content, deadline=self._deadline()
            )
            if options.on_response is not None:
                await settle(options.on_response(response.status_code, dict(response.headers), self.model))
            if not response.is_success:
                refusal = await refusal_of(
                    exchange,
                    response,
                    provider=self.model.provider,
                    deadline=self._deadline(),
                    now_ms=self.settings.clock(),
                )
                raise ProviderError(refusal)
            kind = media_type(response)
            if kind == "text/html":
                raise fail("not_found", "The server answered with a web page, not with a model's answer")
            if kind == "application/json":
                for event in await self._whole(exchange, assembler):
                    yield event
                return
            async with aclosing(self._stream(exchange, assembler)) as events:
                async for event in events:
                    yield event
        finally:
            await exchange.close(drain=assembler.done)

    async def _stream(self, exchange: Exchange, assembler: Assembler) -> EventStream:
        decoder = EventDecoder()
        while not assembler.done:
            try:
                chunk = await exchange.read(deadline=self._deadline())
            except ProviderError as error:
                if assembler.complete and error.failure.kind in ("network", "stalled"):
                    break
                raise
            for sent in decoder.feed(chunk) if chunk else decoder.end():
                for event in await self._take(sent, assembler):
                    yield event
                if assembler.done:
                    break
            if not chunk:
                break
        for event in assembler.finish():
            yield event

    async def _take(self, sent: ServerEvent, assembler: Assembler) -> Events:
        """Hand one event of the stream to the assembler."""
        data = sent.data.strip()
        # Keep-alives: empty data, comments that a proxy wrapped into data, pings.
        if not data or data.startswith(":"):
            return []
        if data == "[DONE]":
            assembler.end_of_data()
            return []
        payload = _decoded(data, sent, self.model.provider)
        if payload is None or payload.get("type") == "ping":
            return []
        self._progress = anyio.current_time()
        if self.options.on_provider_stream_event is not None:
            await settle(self.options.on_provider_stream_event(payload, self.model))
        return assembler.feed(payload)

    async def _whole(self, exchange: Exchange, assembler: Assembler) -> Events:
        """Take a response that is one JSON object: asked for so, or although a stream was asked for."""
        payload = await json_object(exchange, deadline=self._deadline())
        if self.options.deferred:
            handle = handle_of(payload, self.model, self._tool_names)
            if handle is not None:
                return assembler.defer(handle, status=str(payload["status"]))
        return [*assembler.whole(payload), *assembler.finish()]

    def _deadline(self) -> float:
        """When the server has been silent for too long, on anyio's clock."""
        own = self.options.timeout_ms
        limit = self.settings.idle_limit_s if own is None else own / 1000
        if self.assembler is not None and self.assembler.complete:
            limit = min(limit, CLOSING_IDLE_S)
        return self._progress + limit


def _decoded(data: str, sent: ServerEvent, provider: str) -> JsonObject | None:
    """Read the data of an event; None for JSON that says nothing.

    Raises:
        ProviderError: it is an error, or is not JSON.
    """
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        if sent.name == "error":
            raise ProviderError(classify(data, provider=provider)) from None
        what = "holds a piece that is not JSON" if sent.ended else "ended in the middle of a piece"
        raise fail("broken_stream", f"The stream {what}") from None
    if payload is None:
        return None
    if not isinstance(payload, dict):
        raise fail("broken_stream", "The stream holds a piece that is not a JSON object")
    if sent.name == "error" and "type" not in payload:
        raise stream_error({"error": payload}, provider) or fail("server", "The provider reported an error")
    return payload
