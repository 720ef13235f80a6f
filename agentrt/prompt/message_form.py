"""Message form of a chat template, and the conversion of our messages to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from agentrt.base.canonical_json import dumps
from agentrt.base.record import record
from agentrt.base.segments import (
    JSON_ARRAY_FRAME,
    CallFrame,
    CallMade,
    Role,
    ToolSchema,
    argument_texts,
)

JOIN = "\n\n"
"""Separator of texts joined into one message, if the template has no separate place for them."""


@record
class Turn:
    """One message.

    Attributes:
        role: Role of the message.
        text: Text without call frames.
        calls: Tool calls of an assistant.
        call_id: Call answered by a tool message.
        name: Tool of a tool message.
    """

    role: Role
    text: str
    calls: tuple[CallMade, ...] = ()
    call_id: str = ""
    name: str = ""


@record
class MessageForm:
    """Features of a chat template's messages.

    Attributes:
        frame: Frame of calls.
        native: Whether the template writes calls itself, from `tool_calls`.
        arguments: Form of the calls' arguments: an object, its JSON, or an object of texts, for
            templates that write them one by one.
        empty: Content of a message with calls only.
        system: Whether it takes system messages; else their text opens the first user message.
        tool_role: Whether it takes tool messages; else results are user messages.
        lists_tools: Whether it describes the tools; else they are listed in the system message.
        repeats: Whether it takes two messages of one role in a row; else they are joined.
        no_tools: Value of `tools` if there are none.
    """

    frame: CallFrame = JSON_ARRAY_FRAME
    native: bool = False
    arguments: Literal["object", "text", "texts"] = "object"
    empty: Literal["", "none"] = ""
    system: bool = True
    tool_role: bool = True
    lists_tools: bool = True
    repeats: bool = True
    no_tools: Literal["none", "list"] = "none"

    @property
    def merges(self) -> bool:
        """Whether several of our messages can become one, so that inner edges are kept."""
        return not (self.system and self.tool_role and self.repeats)

    def messages(
        self, turns: Sequence[Turn], tools: tuple[ToolSchema, ...]
    ) -> list[dict[str, Any]]:
        """The turns as the template's `messages`."""
        listed = self._listed(turns, tools)
        mapped = [self._mapped(turn) for turn in listed]
        if not self.system:
            mapped = _system_into_user(mapped)
        if not self.repeats:
            mapped = _joined(mapped)
        return [self._message(turn) for turn in mapped]

    def tools(self, tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]] | None:
        """The tools as the template's `tools`."""
        if not tools or not self.lists_tools:
            return None if self.no_tools == "none" else []
        return [{"type": "function", "function": function_of(tool)} for tool in tools]

    def _listed(self, turns: Sequence[Turn], tools: tuple[ToolSchema, ...]) -> list[Turn]:
        if not tools or self.lists_tools:
            return list(turns)
        listing = "Tools:\n" + "\n".join(dumps(function_of(tool)) for tool in tools)
        if turns and turns[0].role == "system":
            first = replace(turns[0], text=turns[0].text + JOIN + listing)
            return [first, *turns[1:]]
        return [Turn("system", listing), *turns]

    def _mapped(self, turn: Turn) -> Turn:
        if turn.role == "tool" and not self.tool_role:
            return Turn("user", turn.text)
        if turn.calls and not self.native:
            return Turn("assistant", turn.text + render_calls(self.frame, turn.calls))
        return turn

    def _message(self, turn: Turn) -> dict[str, Any]:
        content = None if not turn.text and turn.calls and self.empty == "none" else turn.text
        message: dict[str, Any] = {"role": turn.role, "content": content}
        if turn.role == "tool":
            message |= {"name": turn.name, "tool_call_id": turn.call_id}
        if turn.calls:
            message["tool_calls"] = [self._call(call) for call in turn.calls]
        return message

    def _call(self, call: CallMade) -> dict[str, Any]:
        arguments: Any = call.arguments_json
        if self.arguments == "object":
            arguments = json.loads(call.arguments_json)
        elif self.arguments == "texts":
            one = self.frame.argument
            style = one.style if one is not None else "compact"
            arguments = argument_texts(call.arguments_json, style)
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.call_id, "type": "function", "function": function}


def function_of(tool: ToolSchema) -> dict[str, Any]:
    """A tool as in chat templates and OpenAI-compatible APIs."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def render_calls(frame: CallFrame, calls: Sequence[CallMade]) -> str:
    """Calls in the frame of a model."""
    each = (
        f"{frame.before}{one.name}{frame.middle}{frame.arguments_text(one.arguments_json)}{frame.after}"
        for one in calls
    )
    return frame.first + frame.between.join(each) + frame.last


def _system_into_user(turns: Sequence[Turn]) -> list[Turn]:
    texts = [turn.text for turn in turns if turn.role == "system"]
    rest = [turn for turn in turns if turn.role != "system"]
    if not texts:
        return rest
    for index, turn in enumerate(rest):
        if turn.role == "user":
            rest[index] = replace(turn, text=JOIN.join([*texts, turn.text]))
            return rest
    return [Turn("user", JOIN.join(texts)), *rest]


def _joined(turns: Sequence[Turn]) -> list[Turn]:
    found: list[Turn] = []
    for turn in turns:
        last = found[-1] if found else None
        if last and last.role == turn.role and turn.role != "tool" and not last.calls:
            found[-1] = replace(turn, text=last.text + JOIN + turn.text)
        else:
            found.append(turn)
    return found
