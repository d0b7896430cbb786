"""Where our results differ from recorded Pi 1.6.0 on purpose, and exactly what they are instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = Any


@dataclass(frozen=True)
class Refused:
    """The operation was refused with an error of this code."""

    code: str


@dataclass(frozen=True)
class Deviation:
    case: str
    steps: tuple[int, ...]
    pi: str
    ours: str
    why: str
    expect: Any = None

    def step(self, step: Json) -> Json:
        return step


def deviation_for(replay: Any, number: int, step: Json, ours: Json) -> Deviation | None:
    return None
