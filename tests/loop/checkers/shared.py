"""What the checkers of all protocols look at: JSON that can be sent, known keys, text that says something."""

import json
from collections.abc import Collection, Mapping
from typing import Any

AT_TOP = ("oneOf", "anyOf", "allOf", "enum", "not")


def unsendable(body: object) -> list[str]:
    """Say whether a body is not strict JSON in UTF-8."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        return [f"not sendable: {error}"]
    return []


def unknown_keys(value: Mapping[str, Any], allowed: Collection[str], where: str) -> list[str]:
    """Say which keys the protocol does not know."""
    return [f"{where}: unknown key {key}" for key in value if key not in allowed]


def blank(text: object) -> bool:
    """Whether a value is no text or a text of white space."""
    return not isinstance(text, str) or not text.strip()


def refused_parameters(schema: Any) -> list[str]:
    """Say why a tool's schema would be refused: no object, or keywords that may not stand at its top."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return ["parameters must describe an object"]
    broken = [f"{key} may not stand at the top of parameters" for key in AT_TOP if key in schema]
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return [*broken, "properties must be an object"]
    if not all(isinstance(each, dict | bool) for each in properties.values()):
        broken.append("each property must be a schema")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        return [*broken, "required must be a list of names"]
    return broken if len(required) == len(set(required)) else [*broken, "required names must be unique"]


def is_object_text(text: object) -> bool:
    """Whether a value is the JSON text of an object."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False
