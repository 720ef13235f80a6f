"""Tree of prompts: which generation continued which, and how much of its prefix was reused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.ids import NodeId
from agentrt.base.record import record

CONTINUES = "agentrt.prefix.continues"
"""Attribute of a generation: id of the generation whose chat its prompt continues."""

MAX_BRANCHES = 80
MAX_DEPTH = 8

LOST_WORDS = {
    "other_model": "another model generated it, whose tokens differ",
    "template_rewrite": "the chat template writes earlier turns anew",
    "tools_changed": "the tools at the root of the prompt changed",
    "overflow": "the prompt was shortened to leave room",
}
"""Reasons for which a prefix cannot be shared, in words."""


@record
class PromptBranch:
    """Generations of a call site that continue the same generation.

    Attributes:
        name: Name of the call site.
        count: Number of generations.
        turns: Number of generations that continue each other; 1 if none does.
        prompt_tokens: Prompt tokens, all generations together.
        cached_tokens: Prompt tokens found in the prefix cache.
        ahead_tokens: Prompt tokens that were there before the last part of the prompt came.
        lost: Tokens of prefixes that could not be shared, by reason.
        branches: Generations that continue one of these.
    """

    name: str
    count: int
    turns: int
    prompt_tokens: int
    cached_tokens: int
    ahead_tokens: int
    lost: tuple[tuple[str, int], ...]
    branches: tuple[PromptBranch, ...]

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were computed."""
        return max(0, self.prompt_tokens - self.cached_tokens)


@record
class PromptTree:
    """Branches without a parent, and the generations left out as too many or too deep."""

    branches: tuple[PromptBranch, ...]
    left_out: int


def prefix_tree(record: RunRecord, most: int = MAX_BRANCHES) -> PromptTree:
    """The prefix tree of a run.

    Siblings of a call site share a branch, and so do the turns of a loop: generations of a call
    site that continue each other.

    Args:
        record: A finished run.
        most: Most branches.
    """
    below: dict[NodeId | None, list[NodeRecord]] = {}
    generations = {one.node_id: one for one in record.leaves() if one.kind == "generate"}
    for node in generations.values():
        before = node.declared.attributes.get(CONTINUES)
        is_known = isinstance(before, str) and before in generations and before != node.node_id
        below.setdefault(NodeId(str(before)) if is_known else None, []).append(node)
    room = _Room(below, most)
    branches = _branches((None,), room, MAX_DEPTH)
    return PromptTree(branches, len(generations) - room.shown)


class _Room:
    """Generations by what they continue, and the number of branches that may still be made."""

    def __init__(self, below: dict[NodeId | None, list[NodeRecord]], most: int) -> None:
        self.below = below
        self.most = most
        self.shown = 0

    def named(self, parents: Iterable[NodeId | None]) -> dict[str, list[NodeRecord]]:
        """Generations that continue one of the parents, by name."""
        groups: dict[str, list[NodeRecord]] = {}
        for parent in parents:
            for node in self.below.get(parent, ()):
                groups.setdefault(node.name, []).append(node)
        return groups


def _branches(
    parents: Iterable[NodeId | None], room: _Room, depth: int
) -> tuple[PromptBranch, ...]:
    groups = list(room.named(parents).values()) if depth else []
    shown = groups[: room.most]
    room.most -= len(shown)
    return tuple(_branch(nodes, room, depth) for nodes in shown)


def _branch(nodes: list[NodeRecord], room: _Room, depth: int) -> PromptBranch:
    name, last, turns = nodes[0].name, nodes, 1
    while (after := room.named(node.node_id for node in last)).keys() == {name}:
        last, turns = after[name], turns + 1
        nodes = nodes + last
    room.shown += len(nodes)
    ledgers = [node.ledger for node in nodes if node.ledger is not None]
    lost: Counter[str] = Counter()
    for node in nodes:
        for one in node.lost:
            lost[one.reason] += one.lost_tokens
    return PromptBranch(
        name,
        len(nodes),
        turns,
        sum(ledger.prompt_tokens for ledger in ledgers),
        sum(ledger.cached_tokens for ledger in ledgers),
        sum(ledger.ahead_tokens for ledger in ledgers),
        tuple(lost.most_common()),
        _branches([node.node_id for node in last], room, depth - 1),
    )
