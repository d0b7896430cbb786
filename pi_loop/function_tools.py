"""Tools from annotated Python functions: pydantic makes the schema, the signature gives the arguments.

    @tool
    async def read(path: Annotated[str, Field(description="file to read")], limit: int = 100) -> str:
        "Read a file"

Arguments are validated and coerced as any tool's, then given their Python types. A parameter annotated `ToolContext`
is filled in and is not part of the schema. Plain functions run in place; one that blocks should be async.

Source: ours; Pi's tools are written with a schema (see `pi_loop.types.Tool` for that form).
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic_core import to_jsonable_python

from pi_loop.abort import AbortSignal
from pi_loop.ecmascript import json_text
from pi_loop.events import ToolResult
from pi_loop.hooks import settle
from pi_loop.types import ExecutionMode, OnUpdate, Tool
from pi_sessions.messages import ContentBlock, ImageContent, JsonObject, TextContent

_blocks: TypeAdapter[list[ContentBlock]] = TypeAdapter(list[ContentBlock])


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a function may want to know of the call it serves."""

    call_id: str
    signal: AbortSignal | None
    on_update: OnUpdate

    async def update(self, text: str) -> None:
        """Report progress; returns when everybody has heard of it."""
        await self.on_update(ToolResult(content=[TextContent(text=text)]))


@overload
def tool(function: Callable[..., object], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, execution_mode: ExecutionMode | None = None
) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    execution_mode: ExecutionMode | None = None,
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a tool of a function; a decorator, with or without arguments.

    The function may give a `ToolResult`, a text, content blocks, nothing, or any JSON value (sent as JSON text, with
    the value itself as structured content). An exception becomes an error result.

    Args:
        name: Without it, the function's.
        description: Without it, the function's docstring.

    Raises:
        TypeError: a parameter has no annotation, or takes any number of arguments.
    """
    if function is None:
        return lambda wrapped: _make(wrapped, name, description, execution_mode)
    return _make(function, name, description, execution_mode)


def _make(
    function: Callable[..., object], name: str | None, description: str | None, execution_mode: ExecutionMode | None
) -> Tool:
    name = name or str(getattr(function, "__name__", type(function).__name__))
    arguments, context_parameter = _arguments_model(function, name)

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        values = arguments.model_validate(args)
        keywords = {field: getattr(values, field) for field in arguments.model_fields}
        if context_parameter is not None:
            keywords[context_parameter] = ToolContext(call_id, signal, on_update)
        return _to_result(await settle(function(**keywords)))

    return Tool(
        name=name,
        description=description or inspect.getdoc(function) or "",
        parameters=_schema(arguments),
        execute=execute,
        execution_mode=execution_mode,
    )


def _arguments_model(function: Callable[..., object], name: str) -> tuple[type[BaseModel], str | None]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_parameter: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"Tool {name}: parameter {parameter.name} must be usable by name")
        if parameter.name not in hints:
            raise TypeError(f"Tool {name}: parameter {parameter.name} needs an annotation")
        if hints[parameter.name] is ToolContext:
            context_parameter = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields), context_parameter


def _schema(arguments: type[BaseModel]) -> JsonObject:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for field in schema.get("properties", {}).values():
        # A title that only repeats the name tells a model nothing.
        field.pop("title", None)
    return schema


def _to_result(value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult(content=[])
    if isinstance(value, str):
        return ToolResult(content=[TextContent(text=value)])
    if isinstance(value, TextContent | ImageContent):
        return ToolResult(content=[value])
    if isinstance(value, list) and value and all(isinstance(item, TextContent | ImageContent) for item in value):
        return ToolResult(content=_blocks.validate_python(value))
    data = to_jsonable_python(value)
    return ToolResult(content=[TextContent(text=json_text(data))], structured_content=data)
