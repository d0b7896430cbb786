"""Frozen records without the start-up cost of `dataclasses`.

Importing `dataclasses` costs about as much as everything a hot command may import, so small result types derive from
`Record` instead: annotations become fields, instances are immutable, compare by value and print like dataclasses.
Type checkers see an ordinary frozen dataclass.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, dataclass_transform
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Record:
    """Base of frozen value types: one field per annotation, defaults from class attributes.

    A subclass is written like a frozen dataclass. Defaults are shared, so they must be immutable.

    Raises:
        TypeError: a field is missing, unknown or given twice.
        AttributeError: a field is assigned after construction.
    """

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    else:

        def __init__(self, *values, **named):
            fields = self._fields
            if not named and len(values) == len(fields):
                # The usual call; half the time of the checked one below.
                self.__dict__.update(zip(fields, values, strict=True))
                return
            if len(values) > len(fields):
                raise TypeError(f"{type(self).__name__} takes {len(fields)} values, got {len(values)}")
            given = dict(zip(fields, values, strict=False))
            for name, value in named.items():
                if name in given or name not in fields:
                    raise TypeError(f"{type(self).__name__}: unexpected field {name!r}")
                given[name] = value
            for name in fields:
                if name in given:
                    object.__setattr__(self, name, given[name])
                elif name in self._defaults:
                    object.__setattr__(self, name, self._defaults[name])
                else:
                    raise TypeError(f"{type(self).__name__}: missing field {name!r}")

    _fields: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012 (shadowed per subclass, never mutated)

    def __init_subclass__(cls) -> None:
        annotations = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 (importing inspect is what this avoids)
        own = tuple(name for name in annotations if not name.startswith("_"))
        defaults = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        cls._fields = (*cls._fields, *(name for name in own if name not in cls._fields))
        cls._defaults = {**cls._defaults, **defaults}
        for name in defaults:
            delattr(cls, name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; use replace({name}=...)")

    def replace(self, **changes: Any) -> Any:
        """Return a copy with some fields changed."""
        return type(self)(**{**self.as_dict(), **changes})

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, not recursively."""
        return {name: getattr(self, name) for name in self._fields}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inside})"
