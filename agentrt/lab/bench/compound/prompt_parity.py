"""Whether a server reads chats as the tokens that our own codec makes of them."""

from __future__ import annotations

from collections.abc import Sequence
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
class Read:
    """How a server read a chat, and went on.

    Attributes:
        tokens: Of the prompt, as it counts.
        text: Its greedy answer.
    """

    tokens: int
    text: str


def check_reading(
    server: ServerProcess, codec: Codec, chats: Sequence[Messages]
) -> tuple[Read, ...]:
    """Have a server read some chats; those of all servers should go on alike.

    Args:
        server: That runs, or stands still.
        codec: Of the model that it serves.
        chats: What it reads.

    Raises:
        BenchFailed: It counts other tokens than the codec, or wrote another number than asked.
    """
    found = []
    for chat in chats:
        told = server.ask(chat, _GREEDY_TOKENS)
        usage: dict[str, Any] = told["usage"]
        expected = len(codec.encode((), _segments(chat)).token_ids)
        counted = (usage["prompt_tokens"], usage["completion_tokens"])
        if counted != (expected, _GREEDY_TOKENS):
            raise BenchFailed(
                f"{server.plan.name} reads a chat of {expected} tokens as {counted[0]} and "
                f"writes {counted[1]} of {_GREEDY_TOKENS}",
                hint="It has another tokenizer or template, or its lengths are not forced",
            )
        found.append(Read(expected, told["choices"][0]["message"]["content"] or ""))
    return tuple(found)


def chats_in(programs: Sequence[ProgramLine], most: int = 8) -> list[Messages]:
    """Prompts of programs that quote nothing, the first few."""
    found: list[Messages] = []
    for program in programs:
        for node in program["nodes"]:
            if node["kind"] != "call" or len(found) == most:
                continue
            messages = node["messages"]
            if all("text" in part for _, parts in messages for part in parts):
                found.append(
                    [
                        {"role": role, "content": "".join(_text(part) for part in parts)}
                        for role, parts in messages
                    ]
                )
    return found


def _text(part: Any) -> str:
    text: str = part["text"]
    return text


def _segments(chat: Messages) -> list[Segment]:
    found: list[Segment] = []
    for message in chat:
        found += [Open(cast(Role, message["role"])), Text(message["content"]), Close()]
    return found
