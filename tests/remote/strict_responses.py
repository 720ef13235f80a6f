"""Rules of OpenAI Responses for requests, each with the page of documentation it is from.

The pages are those of platform.openai.com/docs:
A: api-reference/responses/create. B: guides/structured-outputs. C: guides/function-calling.
D: guides/migrate-to-responses. E: an error of that API, as users report it.
"""

from collections.abc import Iterator
from typing import Any

from tests.remote.strict_rules import strict_fault

Json = dict[str, Any]

FIELDS = {
    *("model", "input", "instructions", "max_output_tokens", "stream", "store", "temperature"),
    *("top_p", "text", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "include"),
    *("metadata", "truncation", "user", "top_logprobs", "previous_response_id"),
}
ROLES = {"user", "assistant", "system", "developer"}
LEAST_OUTPUT_TOKENS = 16


def faults(body: Json) -> Iterator[str]:
    """What is wrong with a body."""
    for name in body.keys() - FIELDS:
        yield f"Unknown parameter: '{name}'."  # E
    if not body.get("input"):  # E
        yield "Missing required parameter: 'input'."
        return
    if body.get("max_output_tokens", LEAST_OUTPUT_TOKENS) < LEAST_OUTPUT_TOKENS:  # E
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
    if body.get("store", True):  # D: "Responses are stored by default", and none is wanted
        yield "store: this account keeps no responses"
    yield from _item_faults(body["input"])
    yield from _tool_faults(body)
    wanted = body.get("text", {}).get("format", {"type": "text"})
    if wanted["type"] == "json_schema":
        if wanted.keys() - {"type", "name", "schema", "strict", "description"}:  # A
            yield "Unknown parameter in 'text.format'."
        if "name" not in wanted:  # D: "text.format: name is required"
            yield "Missing required parameter: 'text.format.name'."
        yield from _schema_faults("response_format 'output'", wanted["schema"], wanted["strict"])


def _item_faults(items: list[Json]) -> Iterator[str]:
    called: set[str] = set()
    answered: set[str] = set()
    for at, item in enumerate(items):
        match item.get("type", "message"):
            case "message":
                if item["role"] not in ROLES or not isinstance(item["content"], str):  # A
                    yield f"Invalid value: 'input[{at}]'."
            case "function_call":
                called.add(item["call_id"])
                if not isinstance(item["arguments"], str):  # A: "A JSON string of the arguments"
                    yield f"Invalid type for 'input[{at}].arguments'."
            case "function_call_output":
                answered.add(item["call_id"])
                if item["call_id"] not in called:  # E
                    yield f"No tool call found for function call output with {item['call_id']}."
            case kind:
                yield f"Invalid value: '{kind}'."
    for call_id in called - answered:  # E
        yield f"No tool output found for function call {call_id}."


def _tool_faults(body: Json) -> Iterator[str]:
    tools = body.get("tools") or []
    for tool in tools:
        if tool.keys() - {"type", "name", "description", "parameters", "strict"}:
            # D: "functions are internally-tagged": name and parameters stand in the tool itself
            yield "Unknown parameter: 'tools[0].function'."
        strict = tool.get("strict", True)  # D: "functions are strict by default"
        yield from _schema_faults(f"function '{tool['name']}'", tool["parameters"], strict)
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        names = [tool["name"] for tool in tools]
        if choice.keys() != {"type", "name"} or choice["name"] not in names:  # A
            yield "Tool choice 'function' not found in 'tools' parameter."
    elif choice not in ("auto", "none", "required"):  # A
        yield "Invalid value for 'tool_choice'."


def _schema_faults(what: str, schema: Json, strict: bool) -> Iterator[str]:
    if schema.get("type") != "object":  # B
        yield f"Invalid schema for {what}: schema must be a JSON Schema of 'type: \"object\"'"
    fault = strict_fault(schema, (), bounds=True) if strict else None
    if fault is not None:  # B
        yield f"Invalid schema for {what}: {fault}"
