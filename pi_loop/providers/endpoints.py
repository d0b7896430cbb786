"""Where a request goes and who it says it is: address, headers, key. Pure.

Invariant: keys come from the options or the model's own headers and go into headers, nowhere else.

Source: the three protocols' references; Pi 1.6.0, base URLs (with `/v1` for OpenAI's protocols, without for Anthropic).
"""

import re
from urllib.parse import urlsplit

from pi_loop.models.providers import PROVIDERS
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_loop.types import Model, StreamOptions

ANTHROPIC_VERSION = "2023-06-01"
_PATHS = {ANTHROPIC: "/v1/messages", RESPONSES: "/responses", CHAT: "/chat/completions"}
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0|.*\.local|host\.docker\.internal")
_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cf-aig-authorization"})
USER_AGENT = "pi-session"


def endpoint(model: Model) -> str:
    """Give the URL that a request for a model goes to.

    Base URLs that already end in what the protocol appends are taken as they are meant.
    """
    base = model.base_url.rstrip("/")
    if not base:
        known = PROVIDERS.get(model.provider)
        base = known.base_url if known is not None else ""
    path = _PATHS.get(model.api, _PATHS[CHAT])
    if base.endswith(path):
        return base
    if model.api == ANTHROPIC and base.endswith("/v1"):
        return base + path.removeprefix("/v1")
    return base + path


def is_local(base_url: str) -> bool:
    """Whether an address is this machine's or the local network's own name."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    return _LOCAL.fullmatch(host) is not None


def request_headers(model: Model, options: StreamOptions) -> dict[str, str]:
    """Give the headers of a request; names are lower-case, later sources replace earlier ones."""
    identity = options.identity
    agent = identity.user_agent if identity is not None and identity.user_agent else USER_AGENT
    headers = {"content-type": "application/json", "accept": "text/event-stream", "user-agent": agent}
    if model.api == ANTHROPIC:
        headers["anthropic-version"] = ANTHROPIC_VERSION
    if options.api_key:
        bearer = model.api != ANTHROPIC or (model.model_extra or {}).get("authHeader") is True
        if model.api == ANTHROPIC:
            headers["x-api-key"] = options.api_key
        if bearer:
            headers["authorization"] = f"Bearer {options.api_key}"
    headers.update({name.lower(): value for name, value in (model.headers or {}).items()})
    for name, value in (options.headers or {}).items():
        if value is None:
            headers.pop(name.lower(), None)
        else:
            headers[name.lower()] = value
    return headers


def missing_key(model: Model, options: StreamOptions) -> str | None:
    """Say why a request cannot be sent without a key; None if it can."""
    if options.api_key or is_local(endpoint(model)):
        return None
    if _KEY_HEADERS & request_headers(model, options).keys():
        return None
    known = PROVIDERS.get(model.provider)
    if known is not None and not known.needs_key:
        return None
    if known is not None and known.key_variables:
        return f"There is no API key for {model.provider}: set {' or '.join(known.key_variables)}"
    return f"There is no API key for {model.provider}"


def secrets_of(model: Model, options: StreamOptions) -> list[str]:
    """Give what must not show in any text: the key, and the values of headers that may hold one."""
    secrets = [options.api_key] if options.api_key else []
    for name, value in {**(model.headers or {}), **(options.headers or {})}.items():
        if value and re.search(r"auth|key|token|secret|cookie", name, re.IGNORECASE):
            secrets += [value, value.removeprefix("Bearer ")]
    userinfo = urlsplit(model.base_url)
    secrets += [part for part in (userinfo.username, userinfo.password) if part]
    return secrets
