"""Coercion: turns the loosely typed arguments of a model into what the schema most likely meant. Pure.

Three passes, each copying only what it changes: optional nulls are dropped, values are converted by the structure of
the schema, and what is left is converted by its type alone. What cannot be converted stays as it is, for the check to
report. A value that the schema accepts comes out as it went in.

Source: Pi 1.6.0, "Argument validation", "Coercion, three passes" (the rules of pi-schema, MIT).
"""

import re
from collections.abc import Callable
from math import isfinite

from pydantic import JsonValue

from pi_loop.ecmascript import number_to_text, text_to_number
from pi_loop.schema import Node, Resolver, Schema, pattern_matches, tuple_parts, type_matches
from pi_sessions.messages import JsonObject

_BIG = re.compile(r"-?(?:0|[1-9][0-9]*)(?:n|\.[0-9]+)?")
_SAFE_INTEGER = 2**53 - 1
_NOTHING = object()
# What a value becomes under a schema node.
_Convert = Callable[[Node, Resolver, JsonValue], JsonValue]


def same(left: object, right: object) -> bool:
    """Whether two JSON values are the same one, as JavaScript's `===` has it: true is not 1, 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict | list) or isinstance(right, dict | list):
        return left is right
    return left == right


class Coercer:
    """Coerces values for one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        # Pairs of node and value being converted through a reference or a wrap, so that a recursive schema ends.
        self._entered: list[tuple[Node, JsonValue]] = []

    def coerce(self, value: JsonValue) -> JsonValue:
        """Give the value coerced; the value itself is not changed."""
        root, resolver = self._schema.root, self._schema.resolver
        value = self._drop_nulls(root, resolver, value)
        value = self._convert(root, resolver, value)
        return self._by_type(root, resolver, value)

    def _passes(self, node: Node, resolver: Resolver, value: JsonValue) -> bool:
        return self._schema.passes(node, self._schema.enter(node, resolver), value)

    # --- members, shared by the passes ----------------------------------------------------------------------------

    def _members(self, node: Node, resolver: Resolver, value: JsonObject, convert: _Convert) -> JsonObject:
        """Convert the members of an object by properties, pattern properties and additional properties."""
        properties = _mapping(node.get("properties"))
        patterns = _mapping(node.get("patternProperties"))
        additional = node.get("additionalProperties")
        changed: JsonObject | None = None
        for key, member in value.items():
            new = convert(properties[key], resolver, member) if key in properties else member
            matched = key in properties
            for pattern, schema in patterns.items():
                if pattern_matches(pattern, key):
                    matched = True
                    new = convert(schema, resolver, new)
            if not matched and isinstance(additional, dict):
                new = convert(additional, resolver, new)
            if not same(new, member):
                changed = dict(value) if changed is None else changed
                changed[key] = new
        return value if changed is None else changed

    def _each(self, node: Node, resolver: Resolver, value: list[JsonValue], convert: _Convert) -> list[JsonValue]:
        """Convert the items of an array by its tuple part and the schema of the rest."""
        prefix, rest = tuple_parts(node)
        if isinstance(node.get("items"), list):
            # Draft 7's schema for items after a list of schemas is checked, but converts nothing.
            rest = None
        changed: list[JsonValue] | None = None
        for index, item in enumerate(value):
            schema = prefix[index] if index < len(prefix) else rest
            new = item if schema is None else convert(schema, resolver, item)
            if not same(new, item):
                changed = list(value) if changed is None else changed
                changed[index] = new
        return value if changed is None else changed

    # --- pass 1: optional nulls -----------------------------------------------------------------------------------

    def _drop_nulls(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        if not isinstance(node, dict):
            return value
        resolver = self._schema.enter(node, resolver)
        if isinstance(value, list):
            return self._each(node, resolver, value, self._drop_nulls)
        if not isinstance(value, dict):
            return value
        properties = _mapping(node.get("properties"))
        required = node.get("required")
        needed = set(map(str, required)) if isinstance(required, list) else set()
        dropped = {
            key
            for key, property_ in properties.items()
            if key in value
            and value[key] is None
            and key not in needed
            and not (isinstance(property_, dict) and isinstance(property_.get("$ref"), str))
            and not self._passes(property_, resolver, None)
        }
        kept = {key: member for key, member in value.items() if key not in dropped} if dropped else value
        return self._members(node, resolver, kept, self._drop_nulls)

    # --- pass 2: by the structure of the schema -------------------------------------------------------------------

    def _convert(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        if not isinstance(node, dict):
            return value
        resolver = self._schema.enter(node, resolver)
        if isinstance(node.get("$ref"), str):
            target = self._schema.lookup(node["$ref"], resolver)
            return value if target is None else self._reenter(target[0], target[1], value)
        if "const" in node:
            return _to_literal(node["const"], value)
        if isinstance(node.get("enum"), list):
            return self._to_member(node, resolver, value)
        for union in ("anyOf", "oneOf"):
            if isinstance(node.get(union), list):
                return self._to_branch(node, node[union], resolver, value)
        if isinstance(node.get("allOf"), list):
            for branch in node["allOf"]:
                value = self._convert(branch, resolver, value)
            return self._declared_members(node, resolver, value)
        return self._to_type(node, resolver, value)

    def _to_type(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        kind = node.get("type")
        if kind is None:
            if "properties" in node or "patternProperties" in node:
                kind = "object"
            elif "items" in node or "prefixItems" in node:
                kind = "array"
        if kind == "object":
            return self._members(node, resolver, value, self._convert) if isinstance(value, dict) else value
        if kind == "array":
            return self._to_array(node, resolver, value)
        if kind == "integer":
            number = _as_number(value)
            return int(number) if isinstance(number, int | float) and isfinite(number) else value
        reading = _READINGS.get(kind) if isinstance(kind, str) else None
        if reading is None:
            return value
        result = reading(value)
        return value if result is _NOTHING else result  # type: ignore[return-value]

    def _to_array(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return self._each(node, resolver, value, self._convert)
        if isinstance(node.get("items"), list) or isinstance(node.get("prefixItems"), list):
            # A tuple never wraps a single value.
            return value
        return [self._reenter(node.get("items"), resolver, value)]

    def _to_member(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        if any(same(member, value) for member in node["enum"]):
            return value
        for member in node["enum"]:
            candidate = _to_literal(member, value)
            if not same(candidate, value) and self._passes(node, resolver, candidate):
                return candidate
        return value

    def _to_branch(self, node: Node, branches: list[Node], resolver: Resolver, value: JsonValue) -> JsonValue:
        if any(self._passes(branch, resolver, value) for branch in branches):
            return self._declared_members(node, resolver, value)
        for branch in branches:
            candidate = self._declared_members(node, resolver, self._convert(branch, resolver, value))
            if self._passes(node, resolver, candidate):
                return candidate
        return self._declared_members(node, resolver, value)

    def _declared_members(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        declares = any(key in node for key in ("properties", "patternProperties", "additionalProperties"))
        if declares and isinstance(value, dict):
            return self._members(node, resolver, value, self._convert)
        return value

    def _reenter(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        if not isinstance(node, dict) or any(node is n and same(value, v) for n, v in self._entered):
            return value
        self._entered.append((node, value))
        try:
            return self._convert(node, resolver, value)
        finally:
            self._entered.pop()

    # --- pass 3: by type alone ------------------------------------------------------------------------------------

    def _by_type(self, node: Node, resolver: Resolver, value: JsonValue) -> JsonValue:
        if not isinstance(node, dict):
            return value
        resolver = self._schema.enter(node, resolver)
        for branch in _sequence(node.get("allOf")):
            value = self._by_type(branch, resolver, value)
        for union in ("anyOf", "oneOf"):
            value = self._by_branch(_sequence(node.get(union)), resolver, value)
        declared = node.get("type")
        types = [declared] if isinstance(declared, str) else [t for t in _sequence(declared) if isinstance(t, str)]
        if not (len(types) > 1 and any(type_matches(kind, value) for kind in types)):
            for kind in types:
                candidate = _primitive(kind, value)
                if not same(candidate, value):
                    value = candidate
                    break
        if "object" in types and isinstance(value, dict):
            value = self._members(node, resolver, value, self._by_type)
        if "array" in types and isinstance(value, list):
            value = self._each(node, resolver, value, self._by_type)
        return value

    def _by_branch(self, branches: list[Node], resolver: Resolver, value: JsonValue) -> JsonValue:
        if any(self._passes(branch, resolver, value) for branch in branches):
            return value
        for branch in branches:
            candidate = self._by_type(branch, resolver, value)
            if self._passes(branch, resolver, candidate):
                return candidate
        return value


def _mapping(value: object) -> dict[str, Node]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[Node]:
    return value if isinstance(value, list) else []


# --- readings of pass 2: each gives the value read, or _NOTHING ------------------------------------------------------


def _as_text(value: JsonValue) -> object:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_to_text(value) if isinstance(value, int | float) else _NOTHING


def _as_number(value: JsonValue) -> object:
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        return _NOTHING
    number = text_to_number(value)
    if number is not None:
        return number
    word = value.lower()
    if word in ("true", "false"):
        return int(word == "true")
    if _BIG.fullmatch(value) is not None:
        digits = value.rstrip("n").partition(".")[0]
        # Python refuses to read thousands of digits; a safe integer has at most 16.
        big = int(digits) if len(digits) <= len(str(-_SAFE_INTEGER)) else None
        return big if big is not None and abs(big) <= _SAFE_INTEGER else _NOTHING
    return _NOTHING


def _as_boolean(value: JsonValue) -> object:
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else _NOTHING
    if isinstance(value, str):
        word = value.lower()
        if word == "false" or value == "0":
            return False
        if word == "true" or value == "1":
            return True
    return _NOTHING


def _as_null(value: JsonValue) -> object:
    if value is None or value is False:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if value == 0 else _NOTHING
    if isinstance(value, str) and (value.lower() in ("undefined", "null") or value in ("", "0")):
        return None
    return _NOTHING


_READINGS: dict[str, Callable[[JsonValue], object]] = {
    "string": _as_text,
    "number": _as_number,
    "boolean": _as_boolean,
    "null": _as_null,
}


def _to_literal(literal: JsonValue, value: JsonValue) -> JsonValue:
    """Give a literal if the value reads as exactly it, else the value."""
    if same(literal, value):
        return value
    read: object = _NOTHING
    if isinstance(literal, str):
        read = _as_text(value)
    elif isinstance(literal, bool):
        read = _as_boolean(value)
    elif isinstance(literal, int | float):
        read = _as_number(value)
    return literal if read is not _NOTHING and same(read, literal) else value


# --- pass 3's stricter readings ---------------------------------------------------------------------------------------


def _primitive(kind: str, value: JsonValue) -> JsonValue:
    if kind in ("number", "integer"):
        return _strict_number(kind, value)
    if kind == "boolean":
        if value is None:
            return False
        if same(value, "true") or same(value, 1):
            return True
        if same(value, "false") or same(value, 0):
            return False
    if kind == "string":
        if value is None:
            return ""
        if isinstance(value, bool | int | float):
            text = _as_text(value)
            return text if isinstance(text, str) else value
    if kind == "null" and (same(value, "") or same(value, 0) or value is False):
        return None
    return value


def _strict_number(kind: str, value: JsonValue) -> JsonValue:
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        number = text_to_number(value)
        blank = number == 0 and not any(char.isdigit() for char in value)
        if number is not None and not blank and (kind == "number" or number == int(number)):
            return number
    return value
