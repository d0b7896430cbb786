"""Small parts every tool needs: results, and arguments read from checked JSON."""

from pi_loop.events import ToolResult
from pi_sessions.messages import JsonObject, TextContent


def text_result(text: str, details: JsonObject | None = None, *, is_error: bool = False) -> ToolResult:
    """Make a result of a text; without details it has none."""
    fields: dict[str, object] = {"content": [TextContent(text=text)]}
    if details:
        fields["details"] = details
    if is_error:
        fields["is_error"] = True
    return ToolResult.model_validate(fields)


def text_argument(args: JsonObject, name: str, default: str = "") -> str:
    """Return a text argument."""
    value = args.get(name)
    return value if isinstance(value, str) else default


def number_argument(args: JsonObject, name: str) -> int | None:
    """Return a number argument as a whole number, None when it was not given."""
    value = args.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Infinity and its like never pass JSON; a huge float still has a whole part.
    return int(value)


def schema(required: list[str], **properties: JsonObject) -> JsonObject:
    """Return the schema of a tool's arguments."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def string(description: str) -> JsonObject:
    """Return the schema of a text."""
    return {"type": "string", "description": description}


def number(description: str) -> JsonObject:
    """Return the schema of a number."""
    return {"type": "number", "description": description}


def boolean(description: str) -> JsonObject:
    """Return the schema of a yes or no."""
    return {"type": "boolean", "description": description}
