"""Rules of Anthropic Messages for requests, each with the page of documentation it is from.

The pages are those of platform.claude.com/docs/en:
A: api/messages. B: api/errors. C: api/versioning and api/overview. D: build-with-claude/
structured-outputs. E: agents-and-tools/tool-use. F: build-with-claude/extended-thinking.
G: build-with-claude/streaming. H: an error of that API, as users report it.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

FIELDS = {
    *("model", "messages", "max_tokens", "stream", "system", "stop_sequences", "temperature"),
    *("top_p", "top_k", "thinking", "tools", "tool_choice", "output_config", "metadata"),
    *("service_tier", "cache_control"),
}
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
CHOICES = {"auto", "any", "tool", "none"}
SCHEMA_WORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"),
    *("allOf", "$ref", "$defs", "description", "title", "format", "minItems", "default"),
}


class Refusal(Exception):
    """What a request is refused with: the status, the type of the error, and its message."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def check(body: Json, headers: Any, key: str) -> None:
    """Refuse a request that the API does not take."""
    if headers.get("x-api-key") != key:  # C: "x-api-key: Your API key", 401 in B
        raise Refusal(401, "authentication_error", "invalid x-api-key")
    if headers.get("anthropic-version") != "2023-06-01":  # C: "you must send an ... header"
        raise Refusal(400, "invalid_request_error", "anthropic-version: header is required")
    for fault in faults(body):
        raise Refusal(400, "invalid_request_error", fault)


def faults(body: Json) -> Iterator[str]:
    """What is wrong with a body."""
    for name in body.keys() - FIELDS:
        yield f"{name}: Extra inputs are not permitted"  # H
    for name in ("model", "messages", "max_tokens"):  # A: required
        if name not in body:
            yield f"{name}: Field required"
    if not 0 <= body.get("temperature", 1) <= 1:  # A: "Ranges from 0.0 to 1.0"
        yield "temperature: range: 0..1"
    if any(not text.strip() for text in body.get("stop_sequences", ())):  # H
        yield "stop_sequences: each stop sequence must contain non-whitespace"
    if body.get("system") == "":  # H
        yield "system: text content blocks must be non-empty"
    yield from _turn_faults(body)
    yield from _tool_faults(body)
    yield from _thinking_faults(body)
    wanted = (body.get("output_config") or {}).get("format")
    if wanted is not None:
        if wanted.keys() != {"type", "schema"} or wanted["type"] != "json_schema":
            yield "output_config.format: type and schema, and nothing else"  # D
        yield from schema_faults(wanted["schema"], wanted["schema"])


def _turn_faults(body: Json) -> Iterator[str]:
    turns = body["messages"]
    if not turns:
        yield "messages: at least one message is required"  # H
        return
    if any(turn["role"] not in ("user", "assistant") for turn in turns):  # A
        yield "messages: Unexpected role: use the top-level `system` parameter"
    if turns[0]["role"] != "user":  # H
        yield "messages: first message must use the 'user' role"
    if turns[-1]["role"] == "assistant":  # B: "Prefill not supported"
        yield "This model does not support assistant message prefill."
    open_ids: set[str] = set()
    for turn in turns:
        blocks = turn["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if any(not block["text"] for block in blocks if block["type"] == "text"):  # H
            yield "messages: text content blocks must be non-empty"
        results = {one["tool_use_id"] for one in blocks if one["type"] == "tool_result"}
        if open_ids - results:  # E: each call has its result in the next turn of the user
            yield "messages: `tool_use` ids were found without `tool_result` blocks after them"
        if results - open_ids:  # E
            yield "messages: unexpected `tool_use_id` found in `tool_result` blocks"
        kinds = [block["type"] for block in blocks]
        if "tool_result" in kinds[kinds.count("tool_result") :]:  # E: results stand first
            yield "messages: `tool_result` blocks come first in a turn"
        calls = [block for block in blocks if block["type"] == "tool_use"]
        open_ids = {call["id"] for call in calls}
        for call in calls:
            if not CALL_ID.fullmatch(call["id"]) or not isinstance(call["input"], dict):  # A
                yield "messages: tool_use.id should match '^[a-zA-Z0-9_-]+$', input be an object"
    if open_ids:
        yield "messages: `tool_use` ids were found without `tool_result` blocks after them"


def _tool_faults(body: Json) -> Iterator[str]:
    tools = body.get("tools") or []
    blocks = [
        block
        for turn in body["messages"]
        if not isinstance(turn["content"], str)
        for block in turn["content"]
    ]
    if not tools and any(block["type"].startswith("tool_") for block in blocks):  # H
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    for tool in tools:
        if tool.keys() - {"name", "description", "input_schema", "strict", "type"}:  # A
            yield f"tools: {tool['name']}: Extra inputs are not permitted"
        if not TOOL_NAME.fullmatch(tool["name"]):  # A
            yield "tools: name: String should match pattern"
        if tool["input_schema"].get("type") != "object":  # A: `type: Required["object"]`
            yield "tools: input_schema.type: Input should be 'object'"
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not tools:  # H
        yield "tool_choice may only be specified while providing tools"
    if choice.get("type") not in CHOICES:  # E
        yield "tool_choice: Input tag does not match any of the expected tags"
    names = [tool["name"] for tool in tools]
    if (choice["type"] == "tool") != ("name" in choice) or choice.get(
        "name", names[0]
    ) not in names:
        yield "tool_choice: Tool not found in provided tools"  # E


def _thinking_faults(body: Json) -> Iterator[str]:
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] != "enabled":
        return
    if not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:  # F
        yield "thinking.budget_tokens: at least 1024, and less than max_tokens"
    if body.get("temperature", 1) != 1 or "top_k" in body:  # F
        yield "`temperature` may only be set to 1 when thinking is enabled"
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):  # F
        yield "Thinking may not be enabled when tool_choice forces tool use."


def schema_faults(schema: Any, root: Json) -> Iterator[str]:
    """What a schema of a structured output may not be: D, "JSON Schema limitations"."""
    if not isinstance(schema, dict) or not schema.keys() & {"type", "anyOf", "$ref", "enum"}:
        yield "output_config.format.schema: a schema needs a type"
        return
    for name in schema.keys() - SCHEMA_WORDS:  # D: "minimum, maximum, ... minLength, maxLength"
        yield f"output_config.format.schema: property '{name}' is not supported"
    if schema.get("minItems", 0) > 1:  # D: "only supports values 0 and 1"
        yield "output_config.format.schema: 'minItems' values other than 0 or 1 are not supported"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:  # D
        yield "output_config.format.schema: 'additionalProperties' must be false"
    if any(isinstance(one, dict | list) for one in schema.get("enum", ())):  # D
        yield "output_config.format.schema: complex types within enums are not supported"
    if schema is root and _is_recursive(schema.get("$defs", {})):  # D
        yield "output_config.format.schema: recursive schemas are not supported"
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += schema.get("anyOf", ())
    for one in [*inner, *([schema["items"]] if "items" in schema else [])]:
        yield from schema_faults(one, root)


def _is_recursive(definitions: Json) -> bool:
    uses = {
        name: set(re.findall(r"#/\$defs/([^\"]+)", json.dumps(one)))
        for name, one in definitions.items()
    }
    for name in uses:
        seen: set[str] = set()
        todo = set(uses[name])
        while todo:
            seen |= todo
            todo = {other for one in todo for other in uses.get(one, ())} - seen
        if name in seen:
            return True
    return False
