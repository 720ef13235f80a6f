"""Message capture: prompts and outputs as messages of OpenTelemetry's GenAI conventions.

Made only for observers that want them, because the cost grows with the length of the chat.
"""

from __future__ import annotations

import json
from typing import Any

from agentrt.base.canonical_json import content, dumps
from agentrt.base.segments import (
    CallMade,
    Close,
    Generated,
    Hole,
    Open,
    PromptIds,
    ResultOf,
    Segment,
    Text,
)
from agentrt.program import Gen, Node, ToolWork
from agentrt.prompt.message_form import function_of
from agentrt.protocol.events import AttributeValue

Part = dict[str, Any]


def captured_content(node: Node[Any], finish_reason: str) -> dict[str, AttributeValue]:
    """Arguments, results and messages of a node that has ended, as span attributes."""
    work = node.work
    if isinstance(work, ToolWork):
        return _tool(node, work)
    if isinstance(node, Gen):
        return _generation(node, finish_reason)
    return {}


def _tool(node: Node[Any], work: ToolWork) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "gen_ai.tool.call.arguments": (
            work.call.arguments_json if work.call is not None else _json(dict(work.arguments))
        )
    }
    if node.error is None:
        found["gen_ai.tool.call.result"] = _json(node.value)
    return found


def _generation(gen: Gen[Any], finish_reason: str) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    try:
        segments = gen.work.chat.segments()
    except Exception:  # an input failed: there was no prompt
        segments = []
    messages = messages_of(segments)
    system = [
        part for message in messages if message["role"] == "system" for part in message["parts"]
    ]
    if system:
        found["gen_ai.system_instructions"] = dumps(system)
    found["gen_ai.input.messages"] = dumps([m for m in messages if m["role"] != "system"])
    answer = messages_of([Open("assistant"), gen.generated, Close()])
    found["gen_ai.output.messages"] = dumps(
        [{**message, "finish_reason": finish_reason} for message in answer]
    )
    if gen.work.chat.tools:
        tools = [{"type": "function", **function_of(tool)} for tool in gen.work.chat.tools]
        found["gen_ai.tool.definitions"] = dumps(tools)
    return found


def messages_of(segments: list[Segment]) -> list[dict[str, Any]]:
    """Messages with their parts, as the conventions spell them."""
    found: list[dict[str, Any]] = []
    result: ResultOf | None = None
    for segment in segments:
        match segment:
            case Open(role):
                found.append({"role": role, "parts": []})
                result = None
            case ResultOf():
                result = segment
            case Text(text) if result is not None:
                part = {"type": "tool_call_response", "id": result.call_id, "response": text}
                found[-1]["parts"].append(part)
            case Text(text):
                found[-1]["parts"].append({"type": "text", "content": text})
            case Generated(calls=calls):
                if segment.thinking:
                    found[-1]["parts"].append({"type": "reasoning", "content": segment.thinking})
                if segment.visible_text:
                    found[-1]["parts"].append({"type": "text", "content": segment.visible_text})
                found[-1]["parts"] += [_call(call) for call in calls]
            case CallMade():
                found[-1]["parts"].append(_call(segment))
            case Hole(node):
                found[-1]["parts"].append({"type": "text", "content": f"[pending {node}]"})
            case PromptIds(token_ids):
                part = {"type": "text", "content": f"[{len(token_ids)} tokens]"}
                found.append({"role": "user", "parts": [part]})
            case Close():
                pass
    return found


def _call(call: CallMade) -> Part:
    try:
        arguments = json.loads(call.arguments_json)
    except ValueError:
        arguments = call.arguments_json
    return {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": arguments}


def _json(value: Any) -> str:
    """JSON if the value has a JSON form, else its `repr`."""
    try:
        return content(value)
    except ValueError:
        return repr(value)
