"""Which models there are, which of them can be used now, and which one a person means.

Pure functions over a configuration and an environment that are given; the catalogue is read when a question needs it.
Keys are looked at, never shown: reasons name variables and files.

Source: Pi 1.6.0, models and their availability.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import NamedTuple

from pi_loop.models.custom import CustomProvider, ModelsConfig, adapted
from pi_loop.models.providers import PROVIDERS, Provider
from pi_loop.models.values import RunCommand, missing_variables, resolve, run_command, source_of
from pi_loop.providers.endpoints import is_local
from pi_loop.target import CHAT, PROTOCOLS
from pi_loop.types import Model
from pi_sessions.errors import AmbiguousReferenceError, CannotError

NO_CONFIG = ModelsConfig()
_MOST_CANDIDATES = 20
Now = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ModelNotFoundError(CannotError):
    """No model is called like this."""

    code = "model_not_found"


class Usable(NamedTuple):
    """A model, whether it can be used now, and where its key comes from or why not."""

    model: Model
    usable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request to a provider needs; `reason` says why a key that should be there is not."""

    api_key: str | None
    headers: Mapping[str, str]
    reason: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(api_key={'set' if self.api_key else None}, headers={list(self.headers)})"


def all_models(config: ModelsConfig = NO_CONFIG, *, now: Now = _utc_now) -> list[Model]:
    """Give every known and configured model; a configured one replaces a known one of the same name."""
    from pi_loop.models.catalog import all_known_models

    models: dict[tuple[str, str], Model] = {}
    for model in all_known_models(now()):
        models[model.provider, model.id] = adapted(model, config.providers.get(model.provider))
    for model in _configured(config):
        models[model.provider, model.id] = model
    return list(models.values())


def usable_models(environ: Mapping[str, str], config: ModelsConfig = NO_CONFIG, *, now: Now = _utc_now) -> list[Usable]:
    """Say of every model whether it can be used now, usable ones first. No command is run and nobody is asked.

    Args:
        environ: Environment variables.
        config: What is configured.
        now: For prices.
    """
    answers = {name: _availability(name, environ, config) for name in {*PROVIDERS, *config.providers}}
    listed = [Usable(model, *_usable(model, *answers[model.provider])) for model in all_models(config, now=now)]
    return sorted(listed, key=lambda entry: not entry.usable)


def find_model(
    text: str,
    config: ModelsConfig = NO_CONFIG,
    *,
    environ: Mapping[str, str] | None = None,
    now: Now = _utc_now,
) -> Model:
    """Find the model a person names.

    Args:
        text: `provider/model`, a model's id, or a part of either that fits one model only.
        config: What is configured.
        environ: If given, a part that fits several models means the one that can be used now.
        now: For prices.

    Raises:
        ModelNotFoundError: nothing fits; the hint names what is close.
        AmbiguousReferenceError: several models fit.
    """
    wanted = text.strip()
    if not wanted:
        raise ModelNotFoundError("No model is named", hint="name one as provider/model: pi-session models lists them")
    exact = _exact(wanted, config, now)
    if exact is not None:
        return exact
    models = all_models(config, now=now)
    fits = [model for model in models if model.id == wanted]
    fits = fits or [model for model in models if wanted.lower() in _label(model).lower()]
    fits = fits or [model for model in models if wanted.lower() in model.name.lower()]
    if len(fits) > 1 and environ is not None:
        fits = [model for model in fits if _usable(model, *_availability(model.provider, environ, config))[0]] or fits
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise ModelNotFoundError(f"No model is called {wanted!r}", hint=_close(wanted, models))
    labels = tuple(_label(model) for model in fits)
    shown = ", ".join(labels[:_MOST_CANDIDATES]) + (", ..." if len(labels) > _MOST_CANDIDATES else "")
    raise AmbiguousReferenceError(
        f"{len(fits)} models fit {wanted!r}: {shown}", candidates=labels, hint="name one as provider/model"
    )


def credentials(
    provider_id: str,
    environ: Mapping[str, str],
    config: ModelsConfig = NO_CONFIG,
    *,
    run: RunCommand = run_command,
) -> Credentials:
    """Resolve the key and the configured headers of a provider; a command for them runs now, blocking.

    Args:
        provider_id: The provider's name.
        environ: Environment variables.
        config: What is configured.
        run: Runs a command.
    """
    custom = config.providers.get(provider_id)
    headers: dict[str, str] = {}
    reasons: list[str] = []
    for name, template in (custom.headers if custom is not None else {}).items():
        header = resolve(template, environ, run=run)
        if header.value is None:
            reasons.append(f"header {name}: {header.reason}")
        else:
            headers[name] = header.value
    key_text = _key_template(provider_id, environ, config)
    if key_text is None:
        return Credentials(None, headers, "; ".join(reasons) or None)
    key = resolve(key_text, environ, run=run)
    if key.value is None:
        reasons.insert(0, f"key of {provider_id}: {key.reason}")
    return Credentials(key.value, headers, "; ".join(reasons) or None)


# --- parts ------------------------------------------------------------------------------------------------------


def _configured(config: ModelsConfig) -> list[Model]:
    return [model for provider in config.providers.values() for model in provider.models]


def _label(model: Model) -> str:
    return f"{model.provider}/{model.id}"


def _exact(wanted: str, config: ModelsConfig, now: Now) -> Model | None:
    """Find `provider/model`; configured models first, because that needs no catalogue."""
    name, slash, model_id = wanted.partition("/")
    if not slash or not model_id:
        return None
    for model in _configured(config):
        if model.provider == name and model.id == model_id:
            return model
    provider = PROVIDERS.get(name)
    if provider is None:
        return None
    from pi_loop.models.catalog import bare_model, known_model

    found = known_model(provider, model_id, now()) if provider.catalog else None
    if found is None and provider.any_model:
        found = bare_model(provider, model_id)
    return None if found is None else adapted(found, config.providers.get(name))


def _key_template(provider_id: str, environ: Mapping[str, str], config: ModelsConfig) -> str | None:
    """Give where the key of a provider comes from: settings, then models.json, then the environment."""
    custom = config.providers.get(provider_id)
    template = config.keys.get(provider_id) or (custom.key if custom is not None else None)
    if template:
        return template
    known = PROVIDERS.get(provider_id)
    variable = next((name for name in (known.key_variables if known else ()) if environ.get(name)), None)
    return None if variable is None else f"${{{variable}}}"


def _availability(provider_id: str, environ: Mapping[str, str], config: ModelsConfig) -> tuple[bool, str]:
    """Say whether a provider can be asked now, without running anything."""
    known, custom = PROVIDERS.get(provider_id), config.providers.get(provider_id)
    template = _key_template(provider_id, environ, config)
    if template is not None:
        missing = missing_variables(template, environ)
        if missing:
            return False, f"{' and '.join(missing)} is not set"
        return True, f"key from {source_of(template)}"
    if _needs_no_key(known, custom):
        return True, "needs no key"
    wanted = f"set {' or '.join(known.key_variables)}" if known and known.key_variables else "there is no key for it"
    if provider_id in config.logins:
        return False, f"Pi is logged in to it by OAuth, which only Pi can use: {wanted}"
    return False, wanted


def _needs_no_key(known: Provider | None, custom: CustomProvider | None) -> bool:
    if custom is not None and custom.base_url:
        has_own = any(name.lower() in ("authorization", "x-api-key", "api-key") for name in custom.headers)
        return has_own or is_local(custom.base_url)
    return known is not None and not known.needs_key


def _usable(model: Model, available: bool, reason: str) -> tuple[bool, str]:
    if model.api not in PROTOCOLS:
        return False, f"its protocol {model.api} is not supported"
    if not available and model.base_url and is_local(model.base_url):
        return True, "needs no key"
    return available, reason


def _close(wanted: str, models: list[Model]) -> str:
    name, slash, _ = wanted.partition("/")
    models = [model for model in models if slash and model.provider == name] or models
    labels = {_label(model).lower(): _label(model) for model in models}
    labels.update({model.id.lower(): _label(model) for model in models})
    close = list(dict.fromkeys(labels[name] for name in get_close_matches(wanted.lower(), labels, n=6, cutoff=0.55)))
    if close:
        return f"did you mean {' or '.join(close[:4])}? A model of your own goes into models.json"
    return "pi-session models lists them; a model of your own goes into models.json"


def local_models(provider_id: str, ids: list[str], config: ModelsConfig = NO_CONFIG) -> list[Model]:
    """Give models for the ids that a server of one's own says it serves, see `pi_loop.models.discovery`."""
    from pi_loop.models.catalog import bare_model

    custom = config.providers.get(provider_id)
    provider = PROVIDERS.get(provider_id) or Provider(
        provider_id, provider_id, CHAT, custom.base_url if custom is not None else "", any_model=True, needs_key=False
    )
    return [adapted(bare_model(provider, model_id), custom) for model_id in ids]
