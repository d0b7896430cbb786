"""Which models this person has, and how they are asked: configuration, keys, and the stream function.

Imported by commands that talk to a model, and by those that name one; the catalogue and the client are loaded when
they are needed. A key goes from where it is kept into the request and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pi_loop.models.custom import ModelsConfig, config_folders, load_config
from pi_loop.models.registry import Credentials, ModelNotFoundError, credentials, find_model, usable_models
from pi_loop.types import Model, Request, StreamFn, StreamOptions
from pi_session_cli.settings import config_dir
from pi_sessions.errors import CannotError

if TYPE_CHECKING:
    from pi_loop.events import AssistantMessageEvent
    from pi_loop.providers.scripted import ScriptedModel
    from pi_loop.runner_types import DeferredAnswers
    from pi_session_cli.invocation import Invocation
    from pi_sessions.messages import DeferredHandle

SCRIPTED = Model(
    id="scripted",
    name="scripted",
    api="scripted",
    provider="scripted",
    input=["text", "image"],
    context_window=200_000,
)
LISTED = 8


class ModelUnusableError(CannotError):
    """No model is named, or the one that is cannot be asked now."""

    code = "model_unusable"


class ModelAccess:
    """The models of one invocation.

    Args:
        environ: Environment of the caller.
        keys: Keys by provider from the settings, as they are written there.
        own_folder: Our configuration folder.
    """

    def __init__(self, ctx: Invocation) -> None:
        self.environ = ctx.environ
        home = Path(ctx.environ.get("HOME") or os.path.expanduser("~"))
        self.folders = config_folders(Path(config_dir(ctx.environ)), home, ctx.environ)
        keys = {name: str(value) for name, value in ctx.settings.table("keys").items()}
        self.config: ModelsConfig = load_config(self.folders, keys=keys)
        self._credentials: dict[str, Credentials] = {}

    def find(self, text: str) -> Model:
        """Return the model a person names; see `pi_loop.models.registry.find_model`."""
        if text == "scripted/scripted":
            return SCRIPTED
        return find_model(text, self.config, environ=self.environ)

    def known(self, text: str) -> Model | None:
        """Return the model that a session names, None when it is not known here."""
        try:
            return self.find(text)
        except CannotError:
            return None

    def usable(self) -> list[str]:
        """Name the models that can be asked now."""
        listed = usable_models(self.environ, self.config)
        return [f"{each.model.provider}/{each.model.id}" for each in listed if each.usable]

    def credentials(self, provider: str) -> Credentials:
        """Return a provider's key and headers; a command for them runs once, blocking."""
        if provider not in self._credentials:
            self._credentials[provider] = credentials(provider, self.environ, self.config)
        return self._credentials[provider]

    def why_unusable(self, model: Model) -> str | None:
        """Say why a model cannot be asked now, None when it can."""
        from pi_loop.providers.endpoints import missing_key
        from pi_loop.target import PROTOCOLS

        if model.api == SCRIPTED.api:
            return "it is the scripted model: give a script with --script"
        if model.api not in PROTOCOLS:
            return f"its protocol {model.api} is not supported"
        found = self.credentials(model.provider)
        options = StreamOptions(api_key=found.api_key, headers=found.headers)
        reason = missing_key(model, options)
        return (found.reason or reason) if reason is not None else None

    def check(self, model: Model) -> None:
        """Raise ModelUnusableError when a model cannot be asked now; it names the models that can."""
        reason = self.why_unusable(model)
        if reason is not None:
            raise ModelUnusableError(f"{model.provider}/{model.id} cannot be used: {reason}", hint=self.offer())

    def offer(self) -> str:
        """Name the usable models for a hint."""
        usable = self.usable()
        if not usable:
            return "no model can be used now; pi-session models says why"
        more = f", ... ({len(usable)} in all: pi-session models)" if len(usable) > LISTED else ""
        return f"choose one with --model: {', '.join(usable[:LISTED])}{more}"

    def stream(self) -> StreamFn:
        """Return the stream function that asks providers; the runner retries, not the client."""
        from pi_loop.providers.client import ClientSettings, ModelClient
        from pi_loop.providers.endpoints import endpoint, is_local
        from pi_loop.providers.retry import NO_RETRY

        # A proxy of the environment is for the world outside, not for servers of one's own.
        clients = {
            outside: ModelClient(ClientSettings(retry=NO_RETRY, use_environment_proxies=outside))
            for outside in (False, True)
        }

        async def ask(model: Model, request: Request, options: StreamOptions) -> AsyncIterator[AssistantMessageEvent]:
            import anyio.to_thread

            found = await anyio.to_thread.run_sync(self.credentials, model.provider)
            headers = {**found.headers, **(options.headers or {})}
            client = clients[not is_local(endpoint(model))]
            async for event in client(model, request, replace(options, api_key=found.api_key, headers=headers)):
                yield event

        return ask

    def later(self) -> DeferredAnswers:
        """Return what fetches and cancels answers that providers finish later."""
        import anyio.to_thread

        from pi_loop.providers.client import ClientSettings
        from pi_loop.providers.deferred import DeferredClient
        from pi_loop.providers.endpoints import endpoint, is_local

        async def find(handle: DeferredHandle) -> tuple[Model, StreamOptions]:
            model = self.find(f"{handle.provider}/{handle.model_id}")
            found = await anyio.to_thread.run_sync(self.credentials, model.provider)
            return model, StreamOptions(api_key=found.api_key, headers=found.headers)

        return DeferredClient(find, lambda model: ClientSettings(use_environment_proxies=not is_local(endpoint(model))))


def script_stream(path: str, place: str) -> ScriptedModel:
    """Return the model that replays a script file.

    Raises:
        CannotError: the file cannot be read or is no script.
    """
    from pi_loop.providers.scripted import ScriptedModel, ScriptFormatError

    try:
        return ScriptedModel.from_file(Path(place) / Path(path).expanduser())
    except OSError as error:
        raise CannotError(f"Cannot read the script {path}: {error.strerror}", hint="name a script file") from error
    except ScriptFormatError as error:
        raise CannotError(
            f"{path} is no script: {error}",
            hint='a script is a JSON list of steps, one for each request: "a text", or {"text": ..., "calls": '
            '[{"name": ..., "arguments": {...}}]}; the README has more under "Ask and go on"',
        ) from error


__all__ = ["SCRIPTED", "ModelAccess", "ModelNotFoundError", "ModelUnusableError", "script_stream"]
