"""From a model's raw arguments to those a tool may have: copied, coerced, checked, or an error the model can read.

Source: Pi 1.6.0, "Argument validation".
"""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pydantic import JsonValue

from pi_loop.ecmascript import json_text, whole
from pi_loop.types import Tool
from pi_sessions.messages import JsonObject

if TYPE_CHECKING:
    from pi_loop.schema import Schema

# One compiled schema per tool, for as long as the tool lives.
_schemas: "WeakKeyDictionary[Tool, Schema]" = WeakKeyDictionary()


class InvalidArgumentsError(ValueError):
    """A call's arguments do not fit the tool's schema; the text is for the model."""


def validate_arguments(tool: Tool, arguments: JsonObject, arguments_error: str | None = None) -> JsonObject:
    """Give the arguments as the tool's schema has them.

    Args:
        tool: Whose schema counts.
        arguments: What the model sent, after `prepare_arguments`; not changed.
        arguments_error: Why the model's text was no JSON object; any text fails the call.

    Returns:
        A copy, coerced; numbers without a fraction are int.

    Raises:
        InvalidArgumentsError: the arguments do not fit.

    Source: Pi 1.6.0, "Argument validation".
    """
    if arguments_error:
        raise InvalidArgumentsError(f'Invalid arguments for tool "{tool.name}": {arguments_error}')
    schema = _schema(tool)
    copy = _copy(arguments)
    if schema.may_wrap_accepted or not schema.accepts(copy):
        # Otherwise arguments that fit as they are come out of a coercion as they went in.
        copy = _coerce(schema, tool, copy, arguments)
    if not isinstance(copy, dict):
        raise InvalidArgumentsError(f'Validation failed for tool "{tool.name}": the arguments are not an object')
    return copy


def _schema(tool: Tool) -> "Schema":
    schema = _schemas.get(tool)
    if schema is None:
        # Imported at the first call: importing the loop must not load a JSON-schema library.
        from pi_loop.schema import Schema

        schema = _schemas[tool] = Schema(tool.parameters)
    return schema


def _coerce(schema: "Schema", tool: Tool, copy: JsonValue, arguments: JsonObject) -> JsonValue:
    from pi_loop.coercion import Coercer
    from pi_loop.explain import Explainer

    coerced = Coercer(schema).coerce(copy)
    if schema.accepts(coerced):
        return coerced
    lines = [f"  - {_dotted(error.path)}: {error.message}" for error in Explainer(schema).errors(coerced)]
    raise InvalidArgumentsError(
        f'Validation failed for tool "{tool.name}":\n'
        + "\n".join(lines)
        + f"\n\nReceived arguments:\n{json_text(arguments, 2)}"
    )


def _dotted(pointer: str) -> str:
    if not pointer:
        return "root"
    return ".".join(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def _copy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, bool):
        return value
    return whole(value) if isinstance(value, int | float) else value
