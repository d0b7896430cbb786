"""`models`: which models can be used now, and why the rest cannot."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import Argument, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.models.registry import Usable
    from pi_session_cli.invocation import Invocation
    from pi_session_cli.model_access import ModelAccess

COMMAND = Command(
    name="models",
    group="set up",
    help="List the models that can be used now",
    details=(
        "A model can be used when its key is in the environment, in Pi's or our models.json, in Pi's auth.json or in "
        "[keys] of config.toml, or when its server needs none. Providers that cannot be used are named with the "
        "reason. Keys are never shown. --server ollama asks a server of your own which models it serves."
    ),
    examples=("pi-session models", "pi-session models sonnet --all"),
    json=(
        "One object: models (name, provider, model, usable, reason, contextWindow, maxTokens, input, reasoning, cost), "
        "providers (provider, reason, models), problems."
    ),
    arguments=(Argument("words", "TEXT", "Only models whose names contain this", required=False),),
    options=(
        Option("all", ("--all",), "List those that cannot be used, too"),
        Option("server", ("--server",), "Ask this provider's server which models it serves", "text", "PROVIDER"),
    ),
)


def run(ctx: Invocation, words: str | None, *, all: bool, server: str | None) -> Answer:
    """List models."""
    from pi_loop.models.registry import usable_models
    from pi_session_cli.model_access import ModelAccess
    from pi_session_cli.render.models import Models

    access = ModelAccess(ctx)
    listed = served(access, server) if server is not None else usable_models(ctx.environ, access.config)
    if words:
        listed = [each for each in listed if words.lower() in f"{each.model.provider}/{each.model.id}".lower()]
    shown = tuple(each for each in listed if each.usable or all or server is not None)
    said = list(access.config.problems)
    if not shown:
        said.append("No model fits" if words else "No model can be used now")
    elif not all and server is None:
        said.append(f"{len(shown)} of {len(listed)} known models can be used; --all lists the others, too")
    nexts = (f"pi-session run --model {shown[0].model.provider}/{shown[0].model.id} 'Hello'",) if shown else ()
    data = Models(shown, tuple(each for each in listed if not each.usable and not all), access.config.problems)
    return Answer("models", data, tuple(said), nexts)


def served(access: ModelAccess, provider: str) -> list[Usable]:
    """Ask a server for its models.

    Raises:
        CannotError: the provider is unknown, or its server does not say.
    """
    import anyio

    from pi_loop.models.discovery import served_models
    from pi_loop.models.providers import PROVIDERS
    from pi_loop.models.registry import Usable, local_models
    from pi_sessions.errors import CannotError

    known, custom = PROVIDERS.get(provider), access.config.providers.get(provider)
    base_url = (custom.base_url if custom is not None else "") or (known.base_url if known is not None else "")
    if not base_url:
        raise CannotError(f"There is no provider {provider}", hint=f"one of {', '.join(PROVIDERS)}, or of models.json")
    found = access.credentials(provider)

    async def ask() -> tuple[tuple[str, ...], str | None]:
        answer = await served_models(base_url, api_key=found.api_key, headers=found.headers)
        return answer.ids, answer.reason

    ids, reason = anyio.run(ask)
    if reason is not None:
        raise CannotError(f"{provider} at {base_url} does not list its models: {reason}", hint="is the server running?")
    models = local_models(provider, list(ids), access.config)
    return [
        Usable(model, why is None, why or "served now") for model in models for why in (access.why_unusable(model),)
    ]
