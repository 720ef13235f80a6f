"""Rules of hosted APIs for requests, each with the line of public documentation it is from.

A: OpenAI, "Structured model outputs". B: Azure OpenAI, "Structured outputs". C: an error of that
API, as users report it.
"""

from typing import Any

Json = dict[str, Any]

FIELDS = {
    *("model", "messages", "stream", "stream_options", "response_format", "tools", "tool_choice"),
    *("parallel_tool_calls", "temperature", "top_p", "seed", "stop", "presence_penalty"),
    *("frequency_penalty", "max_tokens", "max_completion_tokens"),
}
COMPOSITION = {"allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else"}
BOUNDS = {
    *("minLength", "maxLength", "pattern", "format"),
    *("minimum", "maximum", "multipleOf"),
    *("minItems", "maxItems"),
}
NEVER = {
    *("patternProperties", "unevaluatedProperties", "propertyNames", "minProperties"),
    *("maxProperties", "unevaluatedItems", "contains", "minContains", "maxContains"),
    *("uniqueItems", "prefixItems", "oneOf"),
}


def refusal(body: Json, *, bounds: bool, reasons: bool) -> str | None:
    """Why a request is refused with 400, or None.

    Args:
        body: The request.
        bounds: Whether lengths, ranges and patterns are taken.
        reasons: Whether the model reasons, and takes no sampling parameters.
    """
    for name in body.keys() - FIELDS:
        return f"Unrecognized request argument supplied: {name}"  # C
    if reasons and "max_tokens" in body:  # C
        return (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )
    if reasons and body.get("temperature", 1) != 1:  # C
        return (
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this "
            "model. Only the default (1) value is supported."
        )
    wanted = body.get("response_format") or {}
    schemas = [("response_format 'output'", wanted.get("json_schema", {}))]
    schemas += [
        (f"function {tool['function']['name']!r}", tool["function"])
        for tool in body.get("tools") or ()
    ]
    for what, one in schemas:
        schema = one.get("schema", one.get("parameters"))
        if schema is None:
            continue
        if schema.get("type") != "object":  # A: "Root objects must not be anyOf and must be an ..."
            return f"Invalid schema for {what}: schema must be a JSON Schema of 'type: \"object\"'"
        if one.get("strict"):
            wrong = strict_fault(schema, (), bounds=bounds)
            if wrong is not None:
                return f"Invalid schema for {what}: {wrong}"
    return None


def strict_fault(schema: Any, path: tuple[str, ...], *, bounds: bool) -> str | None:
    """What a strict schema may not be."""
    where = f"In context={path}, "
    if not isinstance(schema, dict) or not schema.keys() & {"type", "anyOf", "$ref", "enum"}:
        return where + "schema must have a 'type' key."
    # A: "Some type-specific keywords are not yet supported. Composition: allOf, not, ..."
    # B: "Unsupported type-specific keywords", a table of strings, numbers, objects and arrays.
    for name in schema.keys() & (COMPOSITION | NEVER | (set() if bounds else BOUNDS)):
        return where + f"'{name}' is not permitted."
    if "default" in schema:  # C
        return where + "'default' is not permitted."
    if "$ref" in schema and schema.keys() - {"$ref", "$defs"}:  # C
        return where + "$ref cannot have keywords."
    if any(isinstance(one, dict | list) for one in schema.get("enum", ())):
        return where + "enum value is not of its type."
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            # A: "additionalProperties: false must always be set in objects"
            return where + "'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required", ())) != set(properties):
            # A: "All fields or function parameters must be specified as required."
            return where + "'required' is required to be an array including every key."
    inner = {
        **schema.get("properties", {}),
        **schema.get("$defs", {}),
        **dict(enumerate(schema.get("anyOf", ()))),
    }
    if schema.get("type") == "array":
        inner["items"] = schema.get("items")
    faults = (strict_fault(one, (*path, str(at)), bounds=bounds) for at, one in inner.items())
    return next((fault for fault in faults if fault), None)
