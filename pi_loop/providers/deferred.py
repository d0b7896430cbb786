"""DeferredClient: fetches and cancels answers that a provider finishes later.

One request per look; what may pass (a busy server, a lost connection) is tried again a few times. An answer that
failed at the provider is an answer: a failed message, about which the run decides. What keeps us from asking is an
error, and nothing has changed by it.

Source: OpenAI Responses API, background mode (`GET /responses/{id}`, `POST /responses/{id}/cancel`); Pi 1.6.0,
deferred answers.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote

import anyio

from pi_loop.providers.client import ASSEMBLERS, ClientSettings
from pi_loop.providers.deferred_handles import LATER, declared_name_by, is_pending
from pi_loop.providers.endpoints import endpoint, missing_key, request_headers, secrets_of
from pi_loop.providers.errors import Failure, ProviderError
from pi_loop.providers.http_answers import json_object, refusal_of
from pi_loop.providers.retry import wait_ms
from pi_loop.providers.transport import Exchange, http_client
from pi_loop.types import Model, StreamOptions
from pi_sessions.errors import CannotError
from pi_sessions.messages import AssistantMessage, DeferredHandle, JsonObject

FindModel = Callable[[DeferredHandle], Awaitable[tuple[Model, StreamOptions]]]
STILL_WAITS = "it still waits: try again, or give it up with --recover close"
GIVE_UP = "give it up with --recover close; what you asked is stored and can be sent again"


class DeferredAnswerError(CannotError):
    """A deferred answer cannot be asked about; nothing has changed."""

    code = "deferred_answer"


class DeferredClient:
    """The `DeferredAnswers` of real providers."""

    def __init__(self, find: FindModel, settings: Callable[[Model], ClientSettings] | None = None) -> None:
        """Take what is needed to ask.

        Args:
            find: Gives the model a handle is of, with the key and headers to ask it with; may raise CannotError.
            settings: Gives how a model's provider is reached and how patiently.
        """
        self._find = find
        self._settings = settings or (lambda model: ClientSettings())

    async def fetch(self, handle: DeferredHandle, /) -> AssistantMessage | None:
        """Give the finished answer, None while the provider is still at it.

        Raises:
            DeferredAnswerError: the provider cannot be asked, or no longer knows the answer.
        """
        model, options = await self._asked(handle)
        payload = await self._request(model, options, "GET", _place(model, handle), handle)
        if is_pending(payload):
            return None
        if payload.get("object") != "response" and "output" not in payload:
            raise DeferredAnswerError(f"{handle.provider} gave something that is no answer", hint=STILL_WAITS)
        settings = self._settings(model)
        created = payload.get("created_at")
        assembler = ASSEMBLERS[model.api](
            model,
            timestamp=created * 1000 if isinstance(created, int) else settings.clock(),
            new_id=settings.new_id,
            declared_name=partial(declared_name_by, handle),
        )
        try:
            events = [*assembler.whole(payload), *assembler.finish()]
        except ProviderError as error:
            return assembler.fail(error.failure.without(secrets_of(model, options)), settings.clock()).error
        last = events[-1]
        assert last.type == "done"
        return last.message

    async def cancel(self, handle: DeferredHandle, /) -> None:
        """Tell the provider that nobody waits any more; one that does not know the answer is content with that.

        Raises:
            DeferredAnswerError: it could not be told.
        """
        model, options = await self._asked(handle)
        try:
            await self._request(model, options, "POST", f"{_place(model, handle)}/cancel", handle)
        except ForgottenAnswerError:
            return

    async def _asked(self, handle: DeferredHandle) -> tuple[Model, StreamOptions]:
        if handle.api not in LATER:
            raise DeferredAnswerError(
                f"Answers of {handle.provider} over {handle.api} that come later cannot be fetched by this program",
                hint=GIVE_UP,
            )
        model, options = await self._find(handle)
        reason = missing_key(model, options)
        if reason is not None:
            raise DeferredAnswerError(reason, hint=STILL_WAITS)
        return model, options

    async def _request(
        self, model: Model, options: StreamOptions, method: str, url: str, handle: DeferredHandle
    ) -> JsonObject:
        """Send one request, again where that may help."""
        settings = self._settings(model)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(model, options, method, url)
            except ProviderError as error:
                failure = error.failure.without(secrets_of(model, options))
            wait = wait_ms(failure, attempt, settings.retry, random=settings.random)
            if wait is None:
                raise _not_asked(failure, handle)
            await settings.sleep(wait / 1000)

    async def _attempt(self, model: Model, options: StreamOptions, method: str, url: str) -> JsonObject:
        settings = self._settings(model)
        deadline = anyio.current_time() + settings.idle_limit_s
        opened = settings.open_http or partial(http_client, use_environment_proxies=settings.use_environment_proxies)
        headers = {**request_headers(model, options), "accept": "application/json"}
        async with opened() as http:
            exchange = Exchange(http, options.signal)
            try:
                response = await exchange.send(url, headers, b"", deadline=deadline, method=method)
                if response.is_success:
                    # What a server says of the cancelled answer is of no use, if it says anything.
                    return {} if method == "POST" else await json_object(exchange, deadline=deadline)
                provider, now_ms = model.provider, settings.clock()
                refusal = await refusal_of(exchange, response, provider=provider, deadline=deadline, now_ms=now_ms)
                raise ProviderError(refusal)
            finally:
                await exchange.close()


class ForgottenAnswerError(DeferredAnswerError):
    """The provider does not know the answer any more."""

    code = "deferred_answer_gone"


def _place(model: Model, handle: DeferredHandle) -> str:
    if not handle.id or "/" in handle.id or handle.id in (".", ".."):
        raise DeferredAnswerError("The stored handle of the answer names none", hint=GIVE_UP)
    return f"{endpoint(model)}/{quote(handle.id, safe='')}"


def _not_asked(failure: Failure, handle: DeferredHandle) -> DeferredAnswerError:
    if failure.status == 404:
        return ForgottenAnswerError(f"{handle.provider} does not have the answer {handle.id} any more", hint=GIVE_UP)
    return DeferredAnswerError(
        f"{handle.provider} could not be asked for the answer: {failure.text.splitlines()[0]}", hint=STILL_WAITS
    )
