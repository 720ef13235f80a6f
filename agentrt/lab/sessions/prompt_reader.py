"""Prompts as ids: with the codec of the model, or letter by letter if it is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrt.base.canonical_json import dumps
from agentrt.lab.sessions.ideal import prompt_ids
from agentrt.lab.workloads.agent_session import AgentTurn, wire_message, wire_tool
from agentrt.prompt import Codec


class PromptReader(Protocol):
    """Reads the prompts of turns."""

    @property
    def counts_tokens(self) -> bool:
        """True if the ids are those of the engine."""
        ...

    def ids(self, turn: AgentTurn) -> Sequence[int]:
        """The ids of a prompt; prompts that begin alike have ids that begin alike."""
        ...


class CodecReader:
    """Reads prompts as an engine with this codec does.

    Args:
        codec: The codec.
    """

    counts_tokens = True

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def ids(self, turn: AgentTurn) -> Sequence[int]:
        """The ids of a prompt, template included."""
        return prompt_ids(self._codec, turn)


class LetterReader:
    """Reads prompts as the bytes of their JSON, tools first, as most templates write them."""

    counts_tokens = False

    def ids(self, turn: AgentTurn) -> Sequence[int]:
        """Bytes of the tools and of one message after the other."""
        parts = (*map(wire_tool, turn.tools), *map(wire_message, turn.messages))
        return memoryview(b"".join(dumps(part).encode() for part in parts))
