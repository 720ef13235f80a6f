"""Chats as lists of messages in the form most APIs share, for files, callers and remote engines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from agentrt.base.canonical_json import dumps
from agentrt.base.errors import InternalError, NotYetKnown, UsageError
from agentrt.base.segments import (
    CallMade,
    Close,
    Generated,
    Hole,
    Open,
    ResultOf,
    Segment,
    Text,
)

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, SchemaSerializer

ROLES = ("system", "user", "assistant", "tool")


class MessageList(Protocol):
    """A chat, as far as messages go."""

    def messages(self) -> list[dict[str, Any]]:
        """The chat as messages."""
        ...

    @classmethod
    def of(cls, messages: Iterable[Any]) -> Self:
        """The chat of some messages."""
        ...


ChatT = TypeVar("ChatT", bound=MessageList)


def messages_of(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """The messages of a chat, from its segments.

    Raises:
        NotYetKnown: A part is still pending.
        InternalError: The segments are not whole messages.
    """
    found: list[dict[str, Any]] = []
    is_open = False
    for segment in segments:
        if isinstance(segment, Open) is is_open:
            place = "inside" if is_open else "outside"
            raise InternalError(f"{type(segment).__name__} stands {place} a message")
        match segment:
            case Open(role):
                found.append({"role": role, "content": ""})
                is_open = True
            case Close():
                is_open = False
            case Hole(node):
                raise NotYetKnown(f"the chat waits for node {node}")
            case _:
                _add(found[-1], segment)
    if is_open:
        raise InternalError("the last message is not closed")
    return found


def _add(message: dict[str, Any], segment: Segment) -> None:
    match segment:
        case Text(text):
            message["content"] += text
        case Generated(calls=calls):
            message["content"] += segment.visible_text
            for call in calls:
                _add(message, call)
        case CallMade(call_id, name, arguments):
            function = {"name": name, "arguments": arguments}
            call_message = {"id": call_id, "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call_message)
        case ResultOf(call_id, name):
            message["tool_call_id"], message["name"] = call_id, name
        case _:
            raise AssertionError(f"{segment} stands inside no message")


def segments_of(messages: Iterable[Any]) -> Iterator[tuple[Segment, ...]]:
    """The segments of each message.

    Raises:
        UsageError: One of them is no message.
    """
    for index, message in enumerate(messages):
        try:
            yield _segments_of(message)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UsageError(
                f"message {index} cannot be read: {error}",
                hint='Give {"role": "user", "content": "..."}',
            ) from None


def _segments_of(message: Any) -> tuple[Segment, ...]:
    role, content = message["role"], message.get("content") or ""
    if role not in ROLES:
        raise ValueError(f"role {role!r} is none of {', '.join(ROLES)}")
    if not isinstance(content, str):
        raise ValueError("its content is no text")
    unknown = message.keys() - {"role", "content", "tool_calls", "tool_call_id", "name"}
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    segments: list[Segment] = [Open(role)]
    if role == "tool":
        segments.append(ResultOf(message.get("tool_call_id", ""), message.get("name", "")))
    if content:
        segments.append(Text(content))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = function["arguments"]
        text = arguments if isinstance(arguments, str) else dumps(arguments)
        json.loads(text)
        segments.append(CallMade(call.get("id", ""), function["name"], text))
    return (*segments, Close())


def chat_schema(chats: type[ChatT]) -> CoreSchema:
    """The schema by which pydantic reads and writes a chat as its messages."""
    from pydantic_core import core_schema

    def read(value: Any) -> ChatT:
        if isinstance(value, chats):
            return value
        if not isinstance(value, list):
            raise ValueError("a chat is a list of messages")
        try:
            return chats.of(value)
        except UsageError as error:
            raise ValueError(str(error)) from None

    return core_schema.no_info_plain_validator_function(
        read,
        serialization=core_schema.plain_serializer_function_ser_schema(chats.messages),
        json_schema_input_schema=core_schema.list_schema(core_schema.dict_schema()),
    )


class ChatSerializer:
    """Makes the serializer that pydantic looks up for a chat in a value of unknown type."""

    def __get__(self, chat: ChatT | None, chats: type[ChatT]) -> SchemaSerializer:
        from pydantic_core import SchemaSerializer

        made = SchemaSerializer(chat_schema(chats))
        chats.__pydantic_serializer__ = made  # type: ignore[attr-defined]
        return made
