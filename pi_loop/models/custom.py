"""Reads providers and models that a person configured: Pi's `models.json`, and the keys in Pi's `auth.json`.

Both are read where they are and never written or copied; ours comes after Pi's and replaces it entry by entry. A part
that cannot be used is a problem that is told, not a reason to drop the rest. Values that stand for variables or
commands stay as they are until a request needs them.

Source: Pi 1.6.0, models.json ("Custom Models") and auth.json.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pi_loop.models.providers import PROVIDERS
from pi_loop.types import Model
from pi_sessions.messages import JsonObject

DEFAULT_WINDOW = 128_000
DEFAULT_MAX_TOKENS = 16_384
MODELS_FILE = "models.json"
AUTH_FILE = "auth.json"
_MODEL_FIELDS = ("name", "reasoning", "input", "contextWindow", "maxTokens", "thinkingLevelMap", "compat")


@dataclass(frozen=True, slots=True)
class CustomProvider:
    """What a configuration says of one provider.

    Args:
        id: Its name.
        base_url: Replaces the known one; empty leaves it.
        key: The key as the file has it: text, `$VARIABLE` or `!command`.
        headers: Headers of each request, values as for the key.
        auth_header: Whether the key is also sent as bearer token.
        compat: Settings for all its models.
        models: Models it adds or replaces.
        overrides: Changes to known models, by id.
        origin: The file, for people.
    """

    id: str
    base_url: str = ""
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    auth_header: bool = False
    compat: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    overrides: Mapping[str, JsonObject] = field(default_factory=dict)
    origin: str = ""


@dataclass(frozen=True, slots=True)
class ModelsConfig:
    """Everything configured about models.

    Args:
        providers: By name.
        keys: Keys by provider, values as in `CustomProvider.key`; they go before those of files and variables.
        logins: Providers that Pi is logged in to by other means than a key, which only Pi can use.
        problems: What could not be used and why, one line each.
    """

    providers: Mapping[str, CustomProvider] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    logins: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def config_folders(own: Path, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Give the folders to read, Pi's first.

    Args:
        own: Our configuration folder.
        home: The user's home.
        environ: Environment variables; `PI_CODING_AGENT_DIR` moves Pi's folder.
    """
    moved = environ.get("PI_CODING_AGENT_DIR")
    return [Path(moved).expanduser() if moved else home / ".pi" / "agent", own]


def load_config(folders: Iterable[Path], *, keys: Mapping[str, str] | None = None) -> ModelsConfig:
    """Read `models.json` and `auth.json` of some folders; later ones replace earlier ones. Missing files are fine.

    Args:
        folders: As `config_folders` gives them.
        keys: Keys by provider from our own settings.
    """
    providers: dict[str, CustomProvider] = {}
    problems: list[str] = []
    stored: dict[str, str] = {}
    logins: set[str] = set()
    for folder in folders:
        data = _read(folder / MODELS_FILE, problems)
        if data is not None:
            found, complaints = parse_models(data, str(folder / MODELS_FILE))
            problems += complaints
            for provider in found:
                known = providers.get(provider.id)
                providers[provider.id] = provider if known is None else _merged(known, provider)
        entries = _read(folder / AUTH_FILE, problems)
        for name, entry in (entries or {}).items():
            if not isinstance(entry, dict):
                continue
            key = entry.get("key")
            if entry.get("type") == "api_key" and isinstance(key, str):
                stored[name] = key
            else:
                logins.add(name)
    return ModelsConfig(providers, {**stored, **(keys or {})}, frozenset(logins), tuple(problems))


def parse_models(data: JsonObject, origin: str) -> tuple[list[CustomProvider], list[str]]:
    """Read the content of a `models.json`.

    Args:
        data: The decoded file.
        origin: Its name, for problems.

    Returns:
        The providers, and what could not be used.
    """
    entries = data.get("providers")
    if not isinstance(entries, dict):
        return [], [f"{origin}: there is no object `providers`"]
    providers: list[CustomProvider] = []
    problems: list[str] = []
    for name, entry in entries.items():
        if isinstance(entry, dict):
            providers.append(_provider(name, entry, origin, problems))
        else:
            problems.append(f"{origin}: provider {name} is not an object")
    return providers, problems


def _provider(name: str, entry: JsonObject, origin: str, problems: list[str]) -> CustomProvider:
    known = PROVIDERS.get(name)
    base_url = _text(entry.get("baseUrl"))
    api = _text(entry.get("api")) or (known.api if known is not None else "")
    compat = entry.get("compat")
    shared = dict(compat) if isinstance(compat, dict) else {}
    models: list[Model] = []
    listed = entry.get("models")
    for item in listed if isinstance(listed, list) else []:
        try:
            model = _model(name, item, api, base_url or (known.base_url if known is not None else ""), shared, entry)
        except (ValidationError, ValueError) as error:
            problems.append(f"{origin}: a model of {name}: {_first_line(error)}")
        else:
            models.append(model)
    headers = entry.get("headers")
    overrides = entry.get("modelOverrides")
    key = entry.get("apiKey")
    return CustomProvider(
        id=name,
        base_url=base_url,
        key=key if isinstance(key, str) and key else None,
        headers={key: _text(value) for key, value in headers.items()} if isinstance(headers, dict) else {},
        auth_header=entry.get("authHeader") is True,
        compat=shared,
        models=tuple(models),
        overrides={key: value for key, value in overrides.items() if isinstance(value, dict)}
        if isinstance(overrides, dict)
        else {},
        origin=origin,
    )


def _model(name: str, item: object, api: str, base_url: str, compat: JsonObject, entry: JsonObject) -> Model:
    if not isinstance(item, dict) or not _text(item.get("id")):
        raise ValueError("it has no id")
    own = item.get("compat")
    merged = {**compat, **own} if isinstance(own, dict) else compat
    fields = {
        "name": item["id"],
        "contextWindow": DEFAULT_WINDOW,
        "maxTokens": DEFAULT_MAX_TOKENS,
        "baseUrl": base_url,
        **{key: value for key, value in item.items() if key not in ("headers", "compat")},
        "api": _text(item.get("api")) or api,
        "provider": name,
    }
    if not fields["api"]:
        raise ValueError(f"{item['id']} has no `api`, and neither has its provider")
    if not fields["baseUrl"]:
        raise ValueError(f"{item['id']} has no `baseUrl`, and neither has its provider")
    if merged:
        fields["compat"] = merged
    if entry.get("authHeader") is True:
        fields["authHeader"] = True
    return Model.model_validate(fields)


def _merged(before: CustomProvider, after: CustomProvider) -> CustomProvider:
    """Lay one file's provider over another's."""
    models = {model.id: model for model in (*before.models, *after.models)}
    return replace(
        after,
        base_url=after.base_url or before.base_url,
        key=after.key or before.key,
        headers={**before.headers, **after.headers},
        auth_header=after.auth_header or before.auth_header,
        compat={**before.compat, **after.compat},
        models=tuple(models.values()),
        overrides={**before.overrides, **after.overrides},
        origin=f"{before.origin}, {after.origin}",
    )


def adapted(model: Model, provider: CustomProvider | None) -> Model:
    """Give a known model as a configuration changes it.

    Source: Pi 1.6.0, "Overriding Built-in Providers", "Per-model Overrides".
    """
    if provider is None:
        return model
    data = model.model_dump(mode="json")
    change = provider.overrides.get(model.id, {})
    compat = {**(model.compat or {}), **provider.compat, **_object(change.get("compat"))}
    data.update({key: change[key] for key in _MODEL_FIELDS if key in change})
    if "cost" in change:
        data["cost"] = {**data["cost"], **_object(change["cost"])}
    if "samplingParams" in change:
        data["samplingParams"] = {**_object(data.get("samplingParams")), **_object(change["samplingParams"])}
    if compat:
        data["compat"] = compat
    if provider.base_url:
        data["baseUrl"] = provider.base_url
    if provider.auth_header:
        data["authHeader"] = True
    try:
        return Model.model_validate(data)
    except ValidationError:
        return model


# --- files ------------------------------------------------------------------------------------------------------

_JSON_NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


def _read(path: Path, problems: list[str]) -> JsonObject | None:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: cannot be read: {type(error).__name__}")
        return None
    try:
        # Comments and commas before a closing bracket are what people write into such files.
        data = json.loads(_JSON_NOISE.sub(lambda found: found.group() if found.group()[0] == '"' else " ", text))
    except ValueError as error:
        problems.append(f"{path}: is not JSON: {_first_line(error)}")
        return None
    if not isinstance(data, dict):
        problems.append(f"{path}: is not a JSON object")
        return None
    return data


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error).partition("\n")[0]
