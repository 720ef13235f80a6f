"""Prompt parity: a server turns chats into the same tokens as our own codec."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

from agentrt.base.record import record
from agentrt.base.segments import Close, Open, Role, Segment, Text
from agentrt.lab.arms.server_process import ServerProcess
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.errors import BenchFailed
from agentrt.prompt import Codec

Messages = list[dict[str, str]]
_GREEDY_TOKENS = 16


@record
class ChatReply:
    """A server's answer to a chat.

    Attributes:
        tokens: Prompt tokens as the server counts.
        text: Greedy answer.
    """

    tokens: int
    text: str


def check_prompt_parity(
    server: ServerProcess, codec: Codec, chats: Sequence[Messages]
) -> tuple[ChatReply, ...]:
    """Let a server complete some chats; the answers of all servers should be equal.

    Args:
        server: A running or halted server.
        codec: Codec of the model that it serves.
        chats: The chats.

    Raises:
        BenchFailed: The server counts other tokens than the codec, or wrote another number than it
            should.
    """
    found = []
    for chat in chats:
        answer = server.complete(chat, _GREEDY_TOKENS)
        usage: dict[str, Any] = answer["usage"]
        expected = len(codec.encode((), _segments(chat)).token_ids)
        counted = (usage["prompt_tokens"], usage["completion_tokens"])
        if counted != (expected, _GREEDY_TOKENS):
            raise BenchFailed(
                f"{server.plan.name} reads a chat of {expected} tokens as {counted[0]} and "
                f"writes {counted[1]} of {_GREEDY_TOKENS}",
                hint="It has another tokenizer or template, or its lengths are not forced",
            )
        found.append(ChatReply(expected, answer["choices"][0]["message"]["content"] or ""))
    return tuple(found)


def chats_in(programs: Sequence[ProgramLine], most: int = 8) -> list[Messages]:
    """The first few prompts of programs that quote nothing."""
    calls = [
        node["messages"] for line in programs for node in line["nodes"] if node["kind"] == "call"
    ]
    known = (chat for chat in calls if all("text" in part for _, parts in chat for part in parts))
    return [
        [{"role": role, "content": "".join(part["text"] for part in parts)} for role, parts in chat]
        for chat in islice(known, most)
    ]


def _segments(chat: Messages) -> list[Segment]:
    found: list[Segment] = []
    for message in chat:
        found += [Open(cast(Role, message["role"])), Text(message["content"]), Close()]
    return found
