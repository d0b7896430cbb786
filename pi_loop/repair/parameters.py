"""Makes a declared tool's parameters a schema that every provider takes: one object, without unions at the top.

Anthropic and OpenAI refuse a tool whose schema is no object, whose properties are no object, or which has `oneOf`,
`anyOf`, `allOf`, `enum` or `not` at its top. Only what is sent changes: a call's arguments are checked against the
tool's own schema.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import JsonObject

# Keywords of unions with what becomes of the branches' requirements: all of them count, or those of every branch.
_UNIONS = {"allOf": True, "anyOf": False, "oneOf": False}
REFUSED_AT_TOP = (*_UNIONS, "enum", "not")


def sent_parameters(parameters: object) -> tuple[JsonObject, str]:
    """Return the schema to send for a tool's parameters, and what is said of the difference.

    Args:
        parameters: The schema as declared; anything.

    Returns:
        The schema, and what was wrong with the declared one as the end of a sentence; empty if nothing was. Absent
        parameters, type or properties are not wrong.
    """
    if not parameters:
        return _empty(), ""
    if not isinstance(parameters, dict) or not _is_object_type(parameters.get("type", "object")):
        return _empty(), "describe no object"
    wrong: list[str] = []
    if parameters.get("type", "object") != "object":
        wrong.append("name a type other than object")
    if not isinstance(parameters.get("properties", {}), dict):
        wrong.append("have properties that are no object")
    elif not all(isinstance(each, dict | bool) for each in parameters.get("properties", {}).values()):
        wrong.append("have a property that is no schema")
    if "required" in parameters and parameters["required"] != _names(parameters["required"]):
        wrong.append("require what is no list of names")
    found = [key for key in REFUSED_AT_TOP if key in parameters]
    if found:
        wrong.append(f"have {' and '.join(found)} at the top")
    return (_merged(parameters, parameters, ()) if wrong else {**_empty(), **parameters}), ", ".join(wrong)


def _empty() -> JsonObject:
    return {"type": "object", "properties": {}}


def _is_object_type(declared: object) -> bool:
    return declared in ("object", None) or (isinstance(declared, list) and "object" in declared)


def _names(value: object) -> list[str]:
    names = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
    return list(dict.fromkeys(names))


def _merged(schema: JsonObject, root: JsonObject, followed: tuple[str, ...]) -> JsonObject:
    """Return a schema as one object schema, its unions merged into its properties.

    Args:
        schema: An object schema, or one without a type.
        root: What local references count from.
        followed: The references on the way here, so that a recursive schema ends.
    """
    made = {key: value for key, value in schema.items() if key not in (*REFUSED_AT_TOP, "required")}
    declared = schema.get("properties")
    own = declared if isinstance(declared, dict) else {}
    properties = {name: each if isinstance(each, dict | bool) else {} for name, each in own.items()}
    required = _names(schema.get("required"))
    for union, every in _UNIONS.items():
        branches = [_branch(each, root, followed) for each in _list(schema.get(union))]
        shown = [branch for branch in branches if branch is not None]
        _add_properties(properties, shown, union)
        required += _required(shown, every=every)
    made |= {"type": "object", "properties": properties}
    if required:
        made["required"] = list(dict.fromkeys(required))
    if len(properties) > len(own):
        # It spoke of the schema's own properties; the branches' are to be allowed.
        made.pop("additionalProperties", None)
    return made


def _branch(branch: object, root: JsonObject, followed: tuple[str, ...]) -> JsonObject | None:
    """Return a branch as one object schema; an open one if nothing is known of it, None if it takes no objects."""
    if branch is False:
        return None
    if not isinstance(branch, dict):
        return _empty()
    ref = branch.get("$ref")
    if isinstance(ref, str):
        named = None if ref in followed else _named(ref, root)
        return _empty() if named is None else _branch(named, root, (*followed, ref))
    return _merged(branch, root, followed) if _is_object_type(branch.get("type")) else None


def _named(ref: str, root: JsonObject) -> object:
    """Return what a local reference names, None if it names nothing."""
    at: object = root
    for part in ref.removeprefix("#").split("/")[1:]:
        at = at.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
    return at if ref.startswith("#/") else None


def _add_properties(properties: JsonObject, branches: list[JsonObject], union: str) -> None:
    """Add the branches' properties; one that several describe differently may be, or must be, as each of them says."""
    described: dict[str, list[object]] = {}
    for branch in branches:
        for name, schema in branch["properties"].items():
            known = described.setdefault(name, [])
            if schema not in known:
                known.append(schema)
    for name, schemas in described.items():
        told = schemas[0] if len(schemas) == 1 else {"allOf" if union == "allOf" else "anyOf": schemas}
        if name not in properties:
            properties[name] = told
        elif properties[name] != told:
            properties[name] = {"allOf": [properties[name], told]}


def _required(branches: list[JsonObject], *, every: bool) -> list[str]:
    lists = [_names(branch.get("required")) for branch in branches]
    if every:
        return [name for names in lists for name in names]
    return [name for name in lists[0] if all(name in names for names in lists)] if lists else []


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
