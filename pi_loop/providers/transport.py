"""One HTTP exchange with a provider over httpx: send a body, hand back the stream's bytes, say what failed.

Every wait ends at once when the signal is aborted, and ends as stalled when the deadline passes; the deadline is the
caller's, because only the caller knows which bytes were progress. Nothing is retried here and nothing of a protocol is
known here. Works on asyncio and trio.

Source: httpx; Pi 1.6.0, timeouts and aborts.
"""

import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import anyio
import httpx

from pi_loop.abort import AbortSignal
from pi_loop.hooks import error_text
from pi_loop.providers.errors import Failure, ProviderError, fail

T = TypeVar("T")
CONNECT_LIMIT_S = 30.0
# Closing a connection is a courtesy; it may not hold up an abort.
CLOSING_LIMIT_S = 0.5
DRAIN_LIMIT_S = 0.05
LONGEST_ERROR_BODY = 64 * 1024
OpenHttp = Callable[[], httpx.AsyncClient]


@functools.cache
def _tls() -> ssl.SSLContext:
    # Reading the certificates is the slow part of making a client.
    return httpx.create_ssl_context()


def http_client(*, use_environment_proxies: bool = False) -> httpx.AsyncClient:
    """Make a client as providers need it: no redirects (they would carry keys elsewhere), no read limit of its own.

    Args:
        use_environment_proxies: Whether to obey HTTP_PROXY and its like.
    """
    return httpx.AsyncClient(
        verify=_tls(),
        timeout=httpx.Timeout(None, connect=CONNECT_LIMIT_S),
        trust_env=use_environment_proxies,
        follow_redirects=False,
    )


class Exchange:
    """One request and its response. `close` it, whatever happened."""

    def __init__(self, http: httpx.AsyncClient, signal: AbortSignal | None) -> None:
        self._http = http
        self._signal = signal
        self._response: httpx.Response | None = None
        self._bytes: AsyncIterator[bytes] | None = None

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, *, deadline: float, method: str = "POST"
    ) -> httpx.Response:
        """Send a request and wait for the head of the response.

        Args:
            deadline: When to give up, on anyio's clock, seconds.
            method: HTTP method.

        Raises:
            ProviderError: it cannot be sent, nothing came in time, or the signal was aborted.
        """
        try:
            request = self._http.build_request(method, url, headers=dict(headers), content=body or None)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise fail("bad_request", f"Not a usable base URL or header: {error_text(error)}") from None
        if request.url.scheme not in ("http", "https") or not request.url.host:
            raise fail("bad_request", "The base URL of the provider is not an http or https address")
        self._response = await self._wait(lambda: self._http.send(request, stream=True), deadline, "answer")
        self._bytes = self._response.aiter_bytes()
        return self._response

    async def read(self, *, deadline: float) -> bytes:
        """Give the next bytes of the body; empty at its end. Raises as `send`."""
        stream = self._bytes
        if stream is None:
            return b""
        return await self._wait(lambda: _next(stream), deadline, "send more")

    async def read_all(self, *, deadline: float, limit: int = LONGEST_ERROR_BODY) -> bytes:
        """Give the whole body, up to a limit in bytes. Raises as `send`."""
        pieces: list[bytes] = []
        size = 0
        while size < limit and (piece := await self.read(deadline=deadline)):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    async def close(self, *, drain: bool = False) -> None:
        """Give the connection back, within a moment, even when cancelled.

        Args:
            drain: Read what the server still sends in that moment, so that the connection can be used again.
        """
        response, self._response = self._response, None
        stream, self._bytes = self._bytes, None
        now = anyio.current_time()
        if stream is not None:
            # Reading on, if only up to the first wait, brings the library's nested generators to their end; otherwise
            # they are left to the garbage collector.
            limit = DRAIN_LIMIT_S if drain else 0.0
            with anyio.CancelScope(shield=True, deadline=now + limit), suppress(httpx.HTTPError, OSError):
                while await _next(stream):
                    pass
        if response is not None:
            with anyio.CancelScope(shield=True, deadline=now + CLOSING_LIMIT_S), suppress(httpx.HTTPError, OSError):
                await response.aclose()

    async def _wait(self, action: Callable[[], Awaitable[T]], deadline: float, what: str) -> T:
        """Await one step of the exchange, and no longer than allowed."""
        result: list[T] = []
        with anyio.CancelScope() as aborted:
            forget = self._signal.on_abort(aborted.cancel) if self._signal is not None else None
            try:
                with anyio.CancelScope(deadline=deadline):
                    result.append(await _translated(action))
            finally:
                if forget is not None:
                    forget()
        if result:
            return result[0]
        if self._signal is not None and self._signal.aborted:
            raise ProviderError(aborted_failure())
        raise fail("stalled", f"The server did not {what} in time")


def aborted_failure() -> Failure:
    """The failure of a request that the user aborted."""
    return Failure("aborted", "The request was aborted")


async def _next(stream: AsyncIterator[bytes]) -> bytes:
    async for chunk in stream:
        if chunk:
            return chunk
    return b""


async def _translated(action: Callable[[], Awaitable[T]]) -> T:
    """Turn the transport's exceptions into failures with words for people."""
    try:
        return await action()
    except httpx.ConnectTimeout:
        raise fail("network", f"No connection within {CONNECT_LIMIT_S:g} s") from None
    except httpx.ConnectError as error:
        raise fail("network", f"Cannot connect: {error_text(error)}") from None
    except httpx.RemoteProtocolError as error:
        raise fail("network", f"The connection was lost: {error_text(error)}") from None
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise fail("bad_request", f"Not a usable base URL: {error_text(error)}") from None
    except httpx.LocalProtocolError as error:
        raise fail("bad_request", f"The request cannot be sent: {error_text(error)}") from None
    except httpx.DecodingError as error:
        raise fail("broken_stream", f"The response cannot be decompressed: {error_text(error)}") from None
    except (httpx.TransportError, OSError) as error:
        raise fail("network", f"The connection failed: {error_text(error)}") from None
