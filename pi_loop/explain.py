"""Explainer: why a schema rejects a value, one line per failing keyword at the place where it fails. Pure.

Runs only for values that failed. Whether a place fails is decided by `Schema`; this module walks the schema in Pi's
order and words what failed as Pi does. Of a union that accepts nothing, only the likeliest branch is explained.

Source: Pi 1.6.0, "Argument validation", "Order of errors", "Messages" (the wording of pi-schema, MIT).
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from pydantic import JsonValue

from pi_loop.coercion import same
from pi_loop.ecmascript import json_text, number_to_text, ordered_keys
from pi_loop.formats import FORMATS
from pi_loop.schema import Node, Resolver, Schema, is_multiple, pattern_matches, tuple_parts, type_matches
from pi_sessions.messages import JsonObject, Number

_LISTED_VALUES = 20


@dataclass(frozen=True, slots=True)
class SchemaError:
    """A failing keyword: JSON Pointer of the place, and what was expected there."""

    path: str
    message: str


class Explainer:
    """Explains failures of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def errors(self, value: JsonValue) -> list[SchemaError]:
        """Give the errors of a value that the schema rejects, at least one."""
        out: list[SchemaError] = []
        self._walk(self._schema.root, self._schema.resolver, value, "", out)
        return out or [SchemaError("", "invalid")]

    def _passes(self, node: Node, resolver: Resolver, value: JsonValue) -> bool:
        return self._schema.passes(node, self._schema.enter(node, resolver), value)

    def _walk(self, node: Node, resolver: Resolver, value: JsonValue, path: str, out: list[SchemaError]) -> None:
        if node is False:
            out.append(SchemaError(path, "no value is allowed here"))
            return
        if not isinstance(node, dict):
            return
        resolver = self._schema.enter(node, resolver)
        if self._schema.passes(node, resolver, value):
            return
        start = len(out)
        if "type" in node:
            types = node["type"] if isinstance(node["type"], list) else [node["type"]]
            if not any(type_matches(kind, value) for kind in types):
                names = " or ".join(str(kind) for kind in types)
                out.append(SchemaError(path, f"expected {names}, got {_type_name(value)}"))
                return
        self._walk_value(node, resolver, value, path, out)
        if isinstance(value, dict):
            self._walk_object(node, resolver, value, path, out)
        elif isinstance(value, list):
            self._walk_array(node, resolver, value, path, out)
        self._walk_in_place(node, resolver, value, path, out)
        if len(out) == start:
            self._walk_unevaluated(node, resolver, value, path, out)

    def _walk_value(self, node: Node, resolver: Resolver, value: JsonValue, path: str, out: list[SchemaError]) -> None:
        """Enum, const and the rules of texts and numbers."""
        enum = node.get("enum")
        if isinstance(enum, list) and not self._passes({"enum": enum}, resolver, value):
            out.append(SchemaError(path, f"expected one of {_list_values(enum)}"))
        if "const" in node and not self._passes({"const": node["const"]}, resolver, value):
            out.append(SchemaError(path, f"expected {json_text(node['const'])}"))
        if isinstance(value, str):
            out.extend(SchemaError(path, message) for message in _text_messages(node, value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            out.extend(SchemaError(path, message) for message in _number_messages(node, value))

    def _walk_object(
        self, node: Node, resolver: Resolver, value: JsonObject, path: str, out: list[SchemaError]
    ) -> None:
        properties = node.get("properties") if isinstance(node.get("properties"), dict) else {}
        required = node.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                out.append(SchemaError(_pointer(path, name), "missing"))
        for name in ordered_keys(properties):
            if name in value:
                self._walk(properties[name], resolver, value[name], _pointer(path, name), out)
        for key in ordered_keys(value):
            self._walk_other_member(node, resolver, key, value[key], _pointer(path, key), out)
        low, high = node.get("minProperties"), node.get("maxProperties")
        if _is_number(low) and len(value) < low:
            out.append(SchemaError(path, f"expected at least {number_to_text(low)} properties"))
        if _is_number(high) and len(value) > high:
            out.append(SchemaError(path, f"expected at most {number_to_text(high)} properties"))
        self._walk_dependencies(node, resolver, value, path, out)

    def _walk_other_member(
        self, node: Node, resolver: Resolver, key: str, member: JsonValue, path: str, out: list[SchemaError]
    ) -> None:
        """Pattern properties, additional properties and property names of one member."""
        properties, patterns = node.get("properties"), node.get("patternProperties")
        matched = isinstance(properties, dict) and key in properties
        for pattern in ordered_keys(patterns) if isinstance(patterns, dict) else ():
            if pattern_matches(pattern, key):
                matched = True
                self._walk(patterns[pattern], resolver, member, path, out)
        additional = node.get("additionalProperties")
        if not matched and additional is False:
            out.append(SchemaError(path, "unknown field"))
        elif not matched and additional is not None:
            self._walk(additional, resolver, member, path, out)
        if "propertyNames" in node and not self._passes(node["propertyNames"], resolver, key):
            out.append(SchemaError(path, "invalid property name"))

    def _walk_dependencies(
        self, node: Node, resolver: Resolver, value: JsonObject, path: str, out: list[SchemaError]
    ) -> None:
        needs: dict[str, Node] = {}
        for keyword in ("dependentRequired", "dependencies"):
            if isinstance(node.get(keyword), dict):
                needs |= node[keyword]
        for key in ordered_keys(needs):
            if key not in value:
                continue
            if isinstance(needs[key], list):
                out.extend(
                    SchemaError(_pointer(path, name), f"required when {key} is present")
                    for name in needs[key]
                    if name not in value
                )
            else:
                self._walk(needs[key], resolver, value, path, out)
        schemas = node.get("dependentSchemas")
        for key in ordered_keys(schemas) if isinstance(schemas, dict) else ():
            if key in value:
                self._walk(schemas[key], resolver, value, path, out)

    def _walk_array(
        self, node: Node, resolver: Resolver, value: list[JsonValue], path: str, out: list[SchemaError]
    ) -> None:
        prefix, rest = tuple_parts(node)
        for index, item in enumerate(value):
            schema = prefix[index] if index < len(prefix) else rest
            if schema is not None:
                self._walk(schema, resolver, item, f"{path}/{index}", out)
        low, high = node.get("minItems"), node.get("maxItems")
        if _is_number(low) and len(value) < low:
            out.append(SchemaError(path, f"expected at least {number_to_text(low)} items"))
        if _is_number(high) and len(value) > high:
            out.append(SchemaError(path, f"expected at most {number_to_text(high)} items"))
        if node.get("uniqueItems") is True and not self._passes({"uniqueItems": True}, resolver, value):
            out.append(SchemaError(path, "expected unique items"))
        if "contains" in node:
            keywords = {key: node[key] for key in ("contains", "minContains", "maxContains") if key in node}
            if not self._passes(keywords, resolver, value):
                out.append(SchemaError(path, _contains_message(node)))

    def _walk_in_place(
        self, node: Node, resolver: Resolver, value: JsonValue, path: str, out: list[SchemaError]
    ) -> None:
        """The keywords that apply other schemas to the value itself."""
        if isinstance(node.get("allOf"), list):
            for branch in node["allOf"]:
                self._walk(branch, resolver, value, path, out)
        if isinstance(node.get("anyOf"), list):
            self._walk_union(node["anyOf"], resolver, value, path, out, exactly_one=False)
        if isinstance(node.get("oneOf"), list):
            self._walk_union(node["oneOf"], resolver, value, path, out, exactly_one=True)
        if "not" in node and self._passes(node["not"], resolver, value):
            out.append(SchemaError(path, "must not match the schema in not"))
        if "if" in node:
            branch = "then" if self._passes(node["if"], resolver, value) else "else"
            self._walk(node.get(branch), resolver, value, path, out)
        if isinstance(node.get("$ref"), str):
            target = self._schema.lookup(node["$ref"], resolver)
            if target is None:
                out.append(SchemaError(path, f"unresolved reference {node['$ref']}"))
            else:
                self._walk(target[0], target[1], value, path, out)

    # --- unions ---------------------------------------------------------------------------------------------------

    def _walk_union(
        self,
        branches: list[Node],
        resolver: Resolver,
        value: JsonValue,
        path: str,
        out: list[SchemaError],
        *,
        exactly_one: bool,
    ) -> None:
        matches = sum(self._passes(branch, resolver, value) for branch in branches)
        if matches == 1 or (matches and not exactly_one):
            return
        if matches:
            out.append(SchemaError(path, "matches more than one alternative"))
            return
        tag = self._tag(branches, resolver) if isinstance(value, dict) else None
        if tag is not None and isinstance(value, dict):
            key, values = tag
            chosen = next((i for i, tagged in enumerate(values) if key in value and same(tagged, value[key])), None)
            if chosen is None:
                out.append(SchemaError(_pointer(path, key), f"expected one of {_list_values(values)}"))
            else:
                self._walk(branches[chosen], resolver, value, path, out)
            return
        out.extend(self._likeliest(branches, resolver, value, path))

    def _likeliest(self, branches: list[Node], resolver: Resolver, value: JsonValue, path: str) -> list[SchemaError]:
        """Give the errors of the branch that declares most of the value's keys, then of the one failing deepest."""
        best: list[SchemaError] = [SchemaError(path, "matches no alternative")]
        best_rank: tuple[int, int] | None = None
        for branch in branches:
            errors: list[SchemaError] = []
            self._walk(branch, resolver, value, path, errors)
            if not errors:
                continue
            declared = 0
            if isinstance(value, dict):
                properties = self._target_properties(branch, resolver)
                declared = sum(key in properties for key in value)
            rank = (declared, _units(errors[0].path))
            if best_rank is None or rank > best_rank:
                best, best_rank = errors, rank
        return best

    def _target_properties(self, branch: Node, resolver: Resolver) -> JsonObject:
        if isinstance(branch, dict) and isinstance(branch.get("$ref"), str):
            target = self._schema.lookup(branch["$ref"], self._schema.enter(branch, resolver))
            branch = None if target is None else target[0]
        properties = branch.get("properties") if isinstance(branch, dict) else None
        return properties if isinstance(properties, dict) else {}

    def _tag(self, branches: list[Node], resolver: Resolver) -> tuple[str, list[JsonValue]] | None:
        """Give the first property of the first branch that has a distinct scalar const in every branch."""
        declared = [self._target_properties(branch, resolver) for branch in branches]
        for key in ordered_keys(declared[0]) if declared else ():
            tags = [properties.get(key) for properties in declared]
            values = [tag["const"] for tag in tags if isinstance(tag, dict) and "const" in tag]
            if len(values) != len(branches) or any(isinstance(value, dict | list) for value in values):
                continue
            if not any(same(a, b) for i, a in enumerate(values) for b in values[:i]):
                return key, values
        return None

    # --- unevaluated properties and items ---------------------------------------------------------------------------

    def _walk_unevaluated(
        self, node: Node, resolver: Resolver, value: JsonValue, path: str, out: list[SchemaError]
    ) -> None:
        """What nothing else at this place has looked at; asked only when nothing else failed here."""
        rest = {key: part for key, part in node.items() if not key.startswith("unevaluated")}
        if isinstance(value, dict) and "unevaluatedProperties" in node:
            seen = self._seen_keys(rest, resolver, value)
            for key in ordered_keys(value):
                if key in seen:
                    continue
                at = _pointer(path, key)
                if node["unevaluatedProperties"] is False:
                    out.append(SchemaError(at, "unknown field"))
                else:
                    self._walk(node["unevaluatedProperties"], resolver, value[key], at, out)
        if isinstance(value, list) and "unevaluatedItems" in node:
            indexes = self._seen_items(rest, resolver, value)
            for index, item in enumerate(value):
                if index in indexes:
                    continue
                at = f"{path}/{index}"
                if node["unevaluatedItems"] is False:
                    out.append(SchemaError(at, "unexpected item"))
                else:
                    self._walk(node["unevaluatedItems"], resolver, item, at, out)

    def _in_place(self, node: Node, resolver: Resolver, value: JsonValue) -> list[tuple[Node, Resolver]]:
        """Give the schemas that apply to the value itself through this node, and accept it."""
        found: list[tuple[Node, Resolver]] = []
        for keyword in ("allOf", "anyOf", "oneOf"):
            branches = node.get(keyword)
            found += [(branch, resolver) for branch in branches] if isinstance(branches, list) else []
        if "if" in node:
            matched = self._passes(node["if"], resolver, value)
            found += [(node["if"], resolver)] if matched else []
            found.append((node.get("then" if matched else "else"), resolver))
        target = self._schema.lookup(node["$ref"], resolver) if isinstance(node.get("$ref"), str) else None
        found += [target] if target is not None else []
        schemas = node.get("dependentSchemas")
        if isinstance(schemas, dict) and isinstance(value, dict):
            found += [(schema, resolver) for key, schema in schemas.items() if key in value]
        return [
            (schema, self._schema.enter(schema, inner))
            for schema, inner in found
            if isinstance(schema, dict) and self._passes(schema, inner, value)
        ]

    def _seen_keys(self, node: Node, resolver: Resolver, value: JsonObject) -> set[str]:
        if "additionalProperties" in node or "unevaluatedProperties" in node:
            return set(value)
        properties, patterns = node.get("properties"), node.get("patternProperties")
        seen = {key for key in value if isinstance(properties, dict) and key in properties}
        if isinstance(patterns, dict):
            seen |= {key for key in value for pattern in patterns if pattern_matches(pattern, key)}
        for schema, inner in self._in_place(node, resolver, value):
            seen |= self._seen_keys(schema, inner, value)
        return seen

    def _seen_items(self, node: Node, resolver: Resolver, value: list[JsonValue]) -> set[int]:
        prefix, rest = tuple_parts(node)
        if rest is not None or "unevaluatedItems" in node:
            return set(range(len(value)))
        seen = set(range(min(len(prefix), len(value))))
        if "contains" in node:
            seen |= {i for i, item in enumerate(value) if self._passes(node["contains"], resolver, item)}
        for schema, inner in self._in_place(node, resolver, value):
            seen |= self._seen_items(schema, inner, value)
        return seen


def _is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text_messages(node: Node, value: str) -> list[str]:
    messages: list[str] = []
    low, high = node.get("minLength"), node.get("maxLength")
    if _is_number(low) and len(value) < low:
        messages.append(f"expected at least {number_to_text(low)} characters")
    if _is_number(high) and len(value) > high:
        messages.append(f"expected at most {number_to_text(high)} characters")
    pattern, name = node.get("pattern"), node.get("format")
    if isinstance(pattern, str) and not pattern_matches(pattern, value):
        messages.append(f"expected to match {pattern}")
    check = FORMATS.get(name) if isinstance(name, str) else None
    if check is not None and not check(value):
        messages.append(f"expected format {name}")
    return messages


def _number_messages(node: Node, value: Number) -> list[str]:
    rules: tuple[tuple[str, str, Callable[[Number, Number], bool]], ...] = (
        ("minimum", ">=", operator.ge),
        ("maximum", "<=", operator.le),
        ("exclusiveMinimum", ">", operator.gt),
        ("exclusiveMaximum", "<", operator.lt),
    )
    messages = [
        f"expected {sign} {number_to_text(node[keyword])}"
        for keyword, sign, holds in rules
        if _is_number(node.get(keyword)) and not holds(value, node[keyword])
    ]
    divisor = node.get("multipleOf")
    if _is_number(divisor) and not is_multiple(value, divisor):
        messages.append(f"expected a multiple of {number_to_text(divisor)}")
    return messages


def _contains_message(node: Node) -> str:
    low = node["minContains"] if _is_number(node.get("minContains")) else 1
    high = node["maxContains"] if _is_number(node.get("maxContains")) else None
    if high is None:
        return f"expected at least {number_to_text(low)} matching {'item' if low == 1 else 'items'}"
    if low == 0:
        return f"expected at most {number_to_text(high)} matching {'item' if high == 1 else 'items'}"
    return f"expected between {number_to_text(low)} and {number_to_text(high)} matching items"


def _list_values(values: list[JsonValue]) -> str:
    if len(values) <= _LISTED_VALUES:
        return json_text(values)
    return f"{json_text(values[:_LISTED_VALUES])[:-1]}, ... and {len(values) - _LISTED_VALUES} more]"


def _pointer(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"


def _units(text: str) -> int:
    # JavaScript counts UTF-16 units.
    return len(text) + sum(char > "\uffff" for char in text)


def _type_name(value: JsonValue) -> str:
    if value is None:
        return "null"
    for kind in ("array", "object", "string", "boolean", "integer", "number"):
        if type_matches(kind, value):
            return kind
    return type(value).__name__
