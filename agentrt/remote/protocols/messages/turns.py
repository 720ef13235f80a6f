"""A chat as the alternating turns of Anthropic Messages, each a list of content blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.base.errors import Unsupported
from agentrt.base.record import record

Json = dict[str, Any]

BETWEEN_SYSTEM_TEXTS = "\n\n"


@record
class Turns:
    """The turns of a chat.

    Attributes:
        system: System text, which stands apart.
        turns: Turns of the user and of the assistant, one after the other.
        called: Names of the tools that the chat has called, each once.
    """

    system: str
    turns: list[Json]
    called: tuple[str, ...]

    @property
    def ends_with_results(self) -> bool:
        """Whether the last turn has results of tools."""
        return any(block["type"] == "tool_result" for block in self.turns[-1]["content"])


def turns_of(messages: Sequence[Mapping[str, Any]]) -> Turns:
    """The turns of a chat.

    System messages at the beginning stand apart. A later one becomes text of the user, and so do
    all of them if the chat has nothing else, since there is no request without a turn.

    Raises:
        Unsupported: The chat has no text at all, or ends with words of the assistant, which the
            model would go on with.
    """
    leading = 0
    while leading < len(messages) and messages[leading]["role"] == "system":
        leading += 1
    if leading == len(messages):
        leading = 0
    system = [str(one["content"]) for one in messages[:leading] if one["content"]]
    turns: list[Json] = []
    for message in messages[leading:]:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _blocks(message)
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if not turns or turns[-1]["role"] == "assistant":
        what = "ends with a message of the assistant" if turns else "has no text"
        raise Unsupported(
            f"the protocol 'messages' takes no chat that {what}",
            hint="Let a message of the user follow",
        )
    calls = (block for turn in turns for block in turn["content"] if block["type"] == "tool_use")
    return Turns(
        BETWEEN_SYSTEM_TEXTS.join(system), turns, tuple(dict.fromkeys(one["name"] for one in calls))
    )


def _blocks(message: Mapping[str, Any]) -> list[Json]:
    """The content blocks of a message; text without characters is none."""
    text = message["content"]
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        return [block | ({"content": text} if text else {})]
    blocks: list[Json] = [{"type": "text", "text": text}] if text else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        given = json.loads(function["arguments"])
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}
        )
    return blocks
