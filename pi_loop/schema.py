"""Schema: what a tool's JSON Schema accepts, decided by the `jsonschema` library.

Draft 2020-12, whatever `$schema` says. Where Pi's own validator reads a schema more kindly than the library, this
module makes up the difference: a reference that names nothing rejects only at its place, patterns are ECMAScript's,
`multipleOf` is exact for decimals, a keyword with a value of the wrong shape counts as absent, and draft 7's
`dependencies` and lists in `items` work. Nothing is fetched from the network.

Source: Pi 1.6.0, "Argument validation".
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import isfinite
from typing import Any, TypeAlias

import referencing
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic import JsonValue
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from pi_loop.ecmascript import regex
from pi_loop.formats import FORMATS
from pi_sessions.messages import JsonObject, Number

# The library's own types, and schemas, which may hold anything where they are wrong.
Node: TypeAlias = Any
Resolver: TypeAlias = Any
_Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class Schema:
    """One compiled schema; nodes of it are given with the resolver that their references count from."""

    def __init__(self, schema: JsonObject) -> None:
        # The dialect is fixed; a `$schema` would make the library switch.
        self.root: Node = _references_last({key: value for key, value in schema.items() if key != "$schema"})
        resource = DRAFT202012.create_resource(self.root)
        registry: referencing.Registry[Any] = referencing.Registry()
        self.resolver: Resolver = registry.resolver_with_root(resource)
        self._validator = _Validator(self.root, _resolver=self.resolver)

        # Items without a type: a single value is accepted as it is, and wrapped into an array nevertheless.
        self.may_wrap_accepted = _has_untyped_items(self.root)

    def accepts(self, value: JsonValue) -> bool:
        """Whether the whole schema accepts a value."""
        return self.passes(self.root, self.resolver, value)

    def passes(self, node: Node, resolver: Resolver, value: JsonValue) -> bool:
        """Whether a node accepts a value."""
        return next(iter(self._validator.descend(value, node, resolver=resolver)), None) is None

    def enter(self, node: Node, resolver: Resolver) -> Resolver:
        """Give the resolver inside a node: its `$id` changes what references count from."""
        if isinstance(node, dict) and isinstance(node.get("$id"), str):
            return resolver.in_subresource(DRAFT202012.create_resource(node))
        return resolver

    def lookup(self, ref: str, resolver: Resolver) -> tuple[Node, Resolver] | None:
        """Give what a reference names, with its resolver; None if it names nothing."""
        try:
            resolved = resolver.lookup(ref)
        except Unresolvable:
            return None
        return resolved.contents, resolved.resolver


def _references_last(part: Node) -> Node:
    """Copy a schema with each `$ref` behind its siblings: one that names itself is not followed when they refuse."""
    if isinstance(part, dict):
        copy = {key: _references_last(member) for key, member in part.items()}
        if isinstance(copy.get("$ref"), str):
            copy["$ref"] = copy.pop("$ref")
        return copy
    return [_references_last(item) for item in part] if isinstance(part, list) else part


def _has_untyped_items(part: object) -> bool:
    if isinstance(part, dict):
        untyped = "type" not in part and ("items" in part or "prefixItems" in part)
        return untyped or any(_has_untyped_items(member) for member in part.values())
    return isinstance(part, list) and any(_has_untyped_items(item) for item in part)


def is_multiple(value: Number, divisor: Number) -> bool:
    """Whether a number is a multiple of another, exactly for decimals: 0.0075 is one of 0.0001."""
    if divisor == 0 or not (isfinite(value) and isfinite(divisor)):
        return False
    quotient = value / divisor
    if isfinite(quotient) and quotient == int(quotient):
        return True
    # Fractions: a quotient may have more digits than a decimal context keeps.
    return Fraction(repr(value)) % Fraction(repr(divisor)) == 0


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether an ECMAScript pattern is found in a text; one that cannot be compiled matches nothing."""
    try:
        return regex(pattern).search(text) is not None
    except (re.error, ValueError):
        return False


def type_matches(name: object, value: JsonValue) -> bool:
    """Whether a value is of a JSON Schema type; an unknown type has no values."""
    if isinstance(value, float) and not isfinite(value):
        return False
    return isinstance(name, str) and name in _TYPES and _Validator.TYPE_CHECKER.is_type(value, name)


_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


# --- keywords that differ from the library's ----------------------------------------------------------------------


def _fail(text: str) -> ValidationError:
    return ValidationError(text)


def _ref(validator: Any, ref: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    resolved = validator._resolver.lookup(ref)
    yield from validator.descend(instance, resolved.contents, resolver=resolved.resolver)


def _type(validator: Any, types: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    names = types if isinstance(types, list) else [types]
    if not any(type_matches(name, instance) for name in names):
        yield _fail("type")


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not pattern_matches(pattern, instance):
        yield _fail("pattern")


def _format(validator: Any, name: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    check = FORMATS.get(name)
    if isinstance(instance, str) and check is not None and not check(instance):
        yield _fail("format")


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number") and not is_multiple(instance, divisor):
        yield _fail("multipleOf")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, node in patterns.items():
        for key, value in instance.items():
            if pattern_matches(pattern, key):
                yield from validator.descend(value, node)


def _additional_properties(validator: Any, node: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    declared = schema.get("properties")
    declared = declared if isinstance(declared, dict) else {}
    patterns = schema.get("patternProperties")
    patterns = patterns if isinstance(patterns, dict) else {}
    for key, value in instance.items():
        if key not in declared and not any(pattern_matches(pattern, key) for pattern in patterns):
            yield from validator.descend(value, node)


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, list):
        return
    prefix, rest = tuple_parts(schema)
    for value, node in zip(instance, prefix, strict=False):
        yield from validator.descend(value, node)
    if rest is not None:
        for value in instance[len(prefix) :]:
            yield from validator.descend(value, rest)


def tuple_parts(node: Node) -> tuple[list[Node], Node]:
    """Give the schemas of an array's first items, and the schema of those after them (None: any)."""
    if isinstance(node.get("items"), list):
        return node["items"], node.get("additionalItems")
    prefix = node.get("prefixItems")
    return prefix if isinstance(prefix, list) else [], node.get("items")


def _prefix_items(validator: Any, prefix: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # With `items` beside it, that keyword checks both.
    if "items" not in schema:
        yield from _items(validator, None, instance, schema)


def _dependencies(validator: Any, dependencies: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for key, needed in dependencies.items():
        if key not in instance:
            continue
        if not isinstance(needed, list):
            yield from validator.descend(instance, needed)
        elif any(name not in instance for name in needed):
            yield _fail("dependencies")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# What a keyword's value must be; otherwise the keyword counts as absent.
_MAPS = ("properties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies")
_LISTS = ("required", "enum", "allOf", "anyOf", "oneOf", "prefixItems")
_TEXTS = ("$ref", "$dynamicRef", "pattern", "format")
_NUMBERS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
)
_SHAPES: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(_MAPS, lambda value: isinstance(value, dict)),
    **dict.fromkeys(_LISTS, lambda value: isinstance(value, list)),
    **dict.fromkeys(_TEXTS, lambda value: isinstance(value, str)),
    **dict.fromkeys(_NUMBERS, _is_number),
    "uniqueItems": lambda value: value is True,
}


def _guarded(name: str, check: _Keyword) -> _Keyword:
    shape = _SHAPES.get(name)

    def guarded(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if shape is not None and not shape(value):
            return
        try:
            yield from check(validator, value, instance, schema) or ()
        except Unresolvable:
            yield _fail("unresolved reference")

    return guarded


_OWN: dict[str, _Keyword] = {
    "$ref": _ref,
    "type": _type,
    "pattern": _pattern,
    "format": _format,
    "multipleOf": _multiple_of,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "items": _items,
    "prefixItems": _prefix_items,
    "dependencies": _dependencies,
}
_KEYWORDS = {**Draft202012Validator.VALIDATORS, **_OWN}
_extend: Any = extend
_Validator: Any = _extend(
    Draft202012Validator, validators={name: _guarded(name, check) for name, check in _KEYWORDS.items()}
)
