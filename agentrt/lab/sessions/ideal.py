"""The prompt tokens that a cache finds which never forgets.

Prompts go into one tree in the order in which they are sent. Each finds as many of its tokens as
any earlier one begins with. The last token of a prompt is always computed: its logits are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from agentrt.base.segments import Segment
from agentrt.lab.workloads.agent_session import AgentTurn, wire_message
from agentrt.program.messages import segments_of
from agentrt.prompt import Codec

Ids = NDArray[np.int64]


class _Edge:
    """Ids on the way to a branch, and what follows by its first id."""

    __slots__ = ("ids", "next")

    def __init__(self, ids: Ids, after: dict[int, _Edge]) -> None:
        self.ids = ids
        self.next = after


class TokenTree:
    """Every prompt that was ever sent, in a compact prefix tree."""

    def __init__(self) -> None:
        self._root: dict[int, _Edge] = {}

    def add(self, token_ids: Sequence[int]) -> int:
        """Add a prompt.

        Args:
            token_ids: Ids of the prompt.

        Returns:
            Number of tokens with which an earlier prompt began, without the last one.
        """
        rest: Ids = np.asarray(token_ids, np.int64)
        branches, found = self._root, 0
        while len(rest):
            edge = branches.get(int(rest[0]))
            if edge is None:
                branches[int(rest[0])] = _Edge(rest, {})
                break
            shared = _shared(edge.ids, rest)
            found, rest = found + shared, rest[shared:]
            if shared < len(edge.ids):
                tail = _Edge(edge.ids[shared:], edge.next)
                edge.ids, edge.next = edge.ids[:shared], {int(tail.ids[0]): tail}
            branches = edge.next
        return max(0, min(found, len(token_ids) - 1))


def ideal_tokens(prompts: Iterable[Sequence[int]]) -> list[int]:
    """Tokens found of each prompt, in the order in which they were sent."""
    tree = TokenTree()
    return [tree.add(prompt) for prompt in prompts]


def prompt_ids(codec: Codec, turn: AgentTurn) -> tuple[int, ...]:
    """The prompt of a turn as an engine with this codec reads it."""
    return codec.encode(turn.tools, turn_segments(turn)).token_ids


def turn_segments(turn: AgentTurn) -> list[Segment]:
    """The prompt of a turn as segments."""
    messages = segments_of(map(wire_message, turn.messages))
    return [segment for segments in messages for segment in segments]


def _shared(one: Ids, other: Ids) -> int:
    most = min(len(one), len(other))
    differs = one[:most] != other[:most]
    return int(differs.argmax()) if differs.any() else most
