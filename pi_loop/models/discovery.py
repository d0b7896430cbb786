"""Asks a server which models it serves; the only part of `pi_loop.models` that talks to anybody.

For local servers, whose models no list knows. A server that is not there is an answer, not an error.

Source: OpenAI API, `GET /models`, which Ollama, llama.cpp, vLLM and LM Studio speak too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from pi_loop.providers.errors import ProviderError, error_parts, redact
from pi_loop.providers.transport import Exchange, OpenHttp, http_client

ANSWER_LIMIT_S = 3.0


@dataclass(frozen=True, slots=True)
class ServedModels:
    """What a server serves.

    Args:
        ids: Model ids as the server names them.
        reason: Why they could not be had; None if they could.
    """

    ids: tuple[str, ...] = ()
    reason: str | None = None


async def served_models(
    base_url: str,
    *,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    limit_s: float = ANSWER_LIMIT_S,
    open_http: OpenHttp = http_client,
) -> ServedModels:
    """Ask a server for its models.

    Args:
        base_url: As for requests, usually ending in `/v1`.
        api_key: Sent as bearer token.
        headers: Further headers.
        limit_s: Longest time to wait, seconds.
        open_http: Makes the HTTP client.
    """
    sent = {"accept": "application/json", **(headers or {})}
    if api_key:
        sent["authorization"] = f"Bearer {api_key}"
    async with open_http() as http:
        exchange = Exchange(http, None)
        deadline = anyio.current_time() + limit_s
        try:
            response = await exchange.send(f"{base_url.rstrip('/')}/models", sent, b"", deadline=deadline, method="GET")
            raw = await exchange.read_all(deadline=deadline, limit=4 * 1024 * 1024)
        except ProviderError as error:
            return ServedModels(reason=redact(error.failure.message, [api_key] if api_key else []))
        finally:
            await exchange.close()
    return _read(raw, response.status_code, api_key)


def _read(raw: bytes, status: int, api_key: str | None) -> ServedModels:
    try:
        payload = json.loads(raw)
    except ValueError:
        return ServedModels(reason=f"The server answered {status} without a list of models")
    entries = payload.get("data") if isinstance(payload, dict) else None
    if status >= 400 or not isinstance(entries, list):
        parts = error_parts(payload)
        reason = parts[0] if parts else f"The server answered {status} without a list of models"
        return ServedModels(reason=redact(reason, [api_key] if api_key else []))
    ids = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return ServedModels(tuple(name for name in ids if isinstance(name, str)))
