"""View of `models`: what can be used, then each provider that cannot, with the reason."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.width import pad, width
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_loop.models.registry import Usable
    from pi_session_cli.render.screen import Screen


class Models(Record):
    """Models to show.

    Attributes:
        shown: Listed one by one.
        others: Unusable ones, told by provider.
        problems: What could not be read of the configuration.
    """

    shown: tuple[Usable, ...]
    others: tuple[Usable, ...]
    problems: tuple[str, ...]


def lines(data: Models, screen: Screen) -> Iterator[str]:
    """Yield one line per model, and one per provider that cannot be used."""
    names = [one_line(f"{each.model.provider}/{each.model.id}") for each in data.shown]
    widest = max((width(name) for name in names), default=0)
    for name, each in zip(names, data.shown, strict=True):
        sign = screen.signs.active if each.usable else " "
        told = f"{sign} {pad(name, widest)}  {pad(abilities(each), 30)}  {one_line(each.reason)}"
        yield (told if each.usable else screen.paint(told, "dim")).rstrip()
    providers = by_provider(data.others)
    if providers:
        if data.shown:
            yield ""
        yield "Not usable now:"
        start = max(width(name) for name, _, _ in providers)
        for name, reason, number in providers:
            yield screen.paint(f"  {pad(name, start)}  {reason} ({count(number, 'model')})", "dim")


def abilities(each: Usable) -> str:
    """Return a model's window and what it takes, in few words."""
    model = each.model
    window = f"{model.context_window // 1000}k" if model.context_window else "?"
    parts = [window, *(word for word, has in (("vision", "image" in model.input), ("thinks", model.reasoning)) if has)]
    if model.cost.input or model.cost.output:
        parts.append(f"${model.cost.input:g}/${model.cost.output:g}")
    return " ".join(parts)


def by_provider(others: tuple[Usable, ...]) -> list[tuple[str, str, int]]:
    """Return provider, reason and number of models."""
    numbers: dict[tuple[str, str], int] = {}
    for each in others:
        key = (one_line(each.model.provider), one_line(each.reason))
        numbers[key] = numbers.get(key, 0) + 1
    return [(*key, number) for key, number in sorted(numbers.items())]


def to_json(data: Models) -> dict[str, object]:
    """Return models and providers for programs."""
    return {
        "models": [
            {
                "name": f"{each.model.provider}/{each.model.id}",
                "provider": each.model.provider,
                "model": each.model.id,
                "usable": each.usable,
                "reason": each.reason,
                "contextWindow": each.model.context_window,
                "maxTokens": each.model.max_tokens,
                "input": each.model.input,
                "reasoning": each.model.reasoning,
                "cost": each.model.cost.model_dump(mode="json"),
            }
            for each in data.shown
        ],
        "providers": [
            {"provider": name, "reason": reason, "models": number} for name, reason, number in by_provider(data.others)
        ],
        "problems": list(data.problems),
    }
