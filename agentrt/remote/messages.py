"""Segments as the messages and tools of a chat completions request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentrt.base.errors import InternalError
from agentrt.base.segments import (
    CallMade,
    Close,
    Generated,
    Hole,
    Open,
    ResultOf,
    Role,
    Segment,
    Text,
    ToolSchema,
)

Json = dict[str, Any]


def messages_of(segments: Sequence[Segment]) -> list[Json]:
    """One JSON message for each message of `segments`.

    Raises:
        InternalError: The segments are not whole messages.
    """
    found: list[Json] = []
    message: _Message | None = None
    for segment in segments:
        if isinstance(segment, Open):
            message = _Message(segment.role)
        elif message is None:
            raise InternalError(f"{type(segment).__name__} stands outside a message")
        elif isinstance(segment, Close):
            found.append(message.json())
            message = None
        else:
            message.add(segment)
    if message is not None:
        raise InternalError("the last message is not closed")
    return found


def tools_of(tools: Sequence[ToolSchema]) -> list[Json]:
    """Tools in the form of the API."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


class _Message:
    """One message being built from its segments."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._text: list[str] = []
        self._calls: list[CallMade] = []
        self._result: ResultOf | None = None

    def add(self, segment: Segment) -> None:
        match segment:
            case Text(text):
                self._text.append(text)
            case Generated(calls=calls) as generated:
                self._text.append(generated.content if calls else generated.text)
                self._calls += calls
            case CallMade():
                self._calls.append(segment)
            case ResultOf():
                self._result = segment
            case Hole(node):
                raise InternalError(f"the value of {node} is still missing in the prompt")
            case Open() | Close():
                raise InternalError("a message stands inside a message")

    def json(self) -> Json:
        message: Json = {"role": self._role, "content": "".join(self._text)}
        if self._calls:
            message["tool_calls"] = [_call(call) for call in self._calls]
        if self._result is not None:
            message["tool_call_id"] = self._result.call_id
            message["name"] = self._result.name
        return message


def _call(call: CallMade) -> Json:
    function = {"name": call.name, "arguments": call.arguments_json}
    return {"id": call.call_id, "type": "function", "function": function}
