"""Segments of prompts and answers as messages of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

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
    ValueText,
)

Part = dict[str, Any]


def genai_messages(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Messages with their parts, as the conventions spell them.

    A part that is the value of a node has its id as `node`, which is ours.
    """
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
                found[-1]["parts"].append(_of_node(part, segment))
            case Text(text):
                part = {"type": "text", "content": text}
                found[-1]["parts"].append(_of_node(part, segment))
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


def _of_node(part: Part, text: Text) -> Part:
    if isinstance(text, ValueText):
        part["node"] = text.node
    return part


def _call(call: CallMade) -> Part:
    try:
        arguments = json.loads(call.arguments_json)
    except ValueError:
        arguments = call.arguments_json
    return {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": arguments}
