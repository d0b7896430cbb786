"""Timing that holds on a noisy machine: variants take turns, medians of many rounds, ratios as the result."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

Piece = Callable[[], object]

# From so many rounds on, a round is too short for a garbage collection before each.
MANY = 100


def medians(variants: Mapping[str, Piece], *, rounds: int, per_round: int = 1) -> dict[str, float]:
    """Run the variants in turns and return the median time of each.

    Args:
        variants: By name; each call is one round of that variant and does `per_round` units of work. A commit is timed
            one by one: over several, a checkpoint of the log would count for each.
        rounds: Rounds of each, after one that does not count.
        per_round: Units of work in a call.

    Returns:
        Seconds per unit, by name.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, piece in variants.items():
            if rounds < MANY:
                gc.collect()
            start = time.perf_counter()
            piece()
            took = time.perf_counter() - start
            if number:
                times[name].append(took / per_round)
    return {name: statistics.median(values) for name, values in times.items()}


def repeat(piece: Piece, times: int) -> Piece:
    """Return a variant that runs a piece several times, so that one round is long enough to measure."""

    def repeated() -> None:
        for _ in range(times):
            piece()

    return repeated


def show(title: str) -> None:
    """Print the heading of a group of figures."""
    print(f"\n{title}", flush=True)


def show_time(name: str, seconds: float) -> None:
    """Print a time that others are compared with."""
    print(f"  {name:<58} {_time(seconds)}", flush=True)


def show_ratio(name: str, seconds: float, limit: float, goal: str) -> None:
    """Print a time, how many times the limit it is, and the goal for that."""
    print(f"  {name:<58} {_time(seconds)}  {seconds / limit:6.2f} x   goal {goal}", flush=True)


def show_figure(name: str, figure: str, goal: str) -> None:
    """Print a figure that is no time."""
    print(f"  {name:<58} {figure:>10}             goal {goal}", flush=True)


def _time(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:7.1f} us"
    return f"{seconds * 1e3:7.2f} ms" if seconds < 1 else f"{seconds:7.2f} s "
