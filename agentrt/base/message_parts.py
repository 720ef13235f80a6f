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
    parts: list[Part] = []
    result: ResultOf | None = None
    for segment in segments:
        kind = type(segment)  # a `match` of the first four takes half as long again
        if kind is Open:
            parts, result = [], None
            found.append({"role": segment.role, "parts": parts})  # type: ignore[union-attr]
        elif kind is Close:
            pass
        elif isinstance(segment, Text):
            parts.append(_text(segment, result))
        elif isinstance(segment, Generated):
            parts += answer_parts(segment)
        else:
            match segment:
                case ResultOf():
                    result = segment
                case CallMade():
                    parts.append(_call(segment))
                case Hole():
                    parts.append({"type": "text", "content": f"[pending {segment.node}]"})
                case PromptIds():
                    part = {"type": "text", "content": f"[{len(segment.token_ids)} tokens]"}
                    found.append({"role": "user", "parts": [part]})
    return found


def answer_parts(answer: Generated) -> list[Part]:
    """The parts of the message of an answer: its reasoning, its text, its calls."""
    parts: list[Part] = []
    if answer.thinking:
        parts.append({"type": "reasoning", "content": answer.thinking})
    if text := answer.visible_text:
        parts.append({"type": "text", "content": text})
    if answer.calls:
        parts += [_call(call) for call in answer.calls]
    return parts


def _text(text: Text, result: ResultOf | None) -> Part:
    part: Part = {"type": "text", "content": text.text}
    if result is not None:
        part = {"type": "tool_call_response", "id": result.call_id, "response": text.text}
    if isinstance(text, ValueText):
        part["node"] = text.node
    return part


def _call(call: CallMade) -> Part:
    try:
        arguments = json.loads(call.arguments_json)
    except ValueError:
        arguments = call.arguments_json
    return {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": arguments}
