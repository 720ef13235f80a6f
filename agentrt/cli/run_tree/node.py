"""Nodes of a run as a tree, with the stretches of their time and counts of what is below them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from agentrt.analysis.stage import Label, Stage
from agentrt.protocol.step_output import Ledger

State = Literal[
    "waiting",
    "held",
    "sent",
    "queue",
    "prefill",
    "decode",
    "tool",
    "asks",
    "running",
    "ok",
    "failed",
    "cancelled",
]
"""State of a node: `waiting` for its inputs, `held` by admission control, `sent` to a remote engine
that has not answered, `queue` of an engine or of the tool workers, and then its work or its end."""

Group = Literal["running", "waiting", "ok", "failed", "cancelled"]
GROUPS: tuple[Group, ...] = get_args(Group)
_GROUP_OF: dict[State, Group] = {
    "waiting": "waiting",
    "held": "waiting",
    "ok": "ok",
    "failed": "failed",
    "cancelled": "cancelled",
}


def group_of(state: State) -> Group:
    """Group under which a state is counted."""
    return _GROUP_OF.get(state, "running")


@dataclass(slots=True)
class BranchCounts:
    """Counts over a node and all below it.

    Attributes:
        nodes: Nodes by group.
        tokens: Output tokens of the nodes that have ended.
        cost_pico: Cost of the nodes that have ended, in millionths of a millionth of the currency.
    """

    nodes: dict[Group, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    tokens: int = 0
    cost_pico: int = 0

    @property
    def size(self) -> int:
        """Number of nodes."""
        return sum(self.nodes.values())


@dataclass(slots=True, eq=False)
class TreeNode:
    """One node of the tree.

    Attributes:
        key: Id that is unique in the tree.
        name: Name in its row.
        kind: `generate`, `tool`, `program`, `ask`, or `batch` for the root of several runs.
        parent: The program that declared it; None for the root.
        started_at_s: Instant of its declaration, or of its last input where that is known.
        state: Current state.
        stages: Stretches of its time that are over.
        doing: Label of the stretch that is not over; None between two.
        since_s: First instant of that stretch.
        ended_at_s: Instant of its end, or None.
        first_token_at_s: Instant of its first output token, or None.
        prompt_tokens: Length of its prompt, as far as known.
        cached_tokens: Prompt tokens found in the KV cache; None if unknown.
        tokens: Output tokens.
        cost_pico: Cost, likewise; 0 until it has ended.
        decode_s: Time of its output tokens after the end; 0.0 if unknown.
        critical: Whether the critical path goes through it.
        saving_s: Time that the run would save if the node took none; None if not computed.
        why: Reason of its failure or cancellation; "" if there is none.
        children: Nodes that it declared, in their order.
        counts: Counts over it and all below.
    """

    key: str
    name: str
    kind: str
    parent: TreeNode | None
    started_at_s: float
    state: State = "waiting"
    stages: list[Stage] = field(default_factory=list)
    doing: Label | None = None
    since_s: float = 0.0
    ended_at_s: float | None = None
    first_token_at_s: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    tokens: int = 0
    cost_pico: int = 0
    decode_s: float = 0.0
    critical: bool = False
    saving_s: float | None = None
    why: str = ""
    children: list[TreeNode] = field(default_factory=list)
    counts: BranchCounts = field(default_factory=BranchCounts)

    @property
    def has_ended(self) -> bool:
        """Whether it has its value or its error, or was cancelled."""
        return self.ended_at_s is not None

    def take(self, ledger: Ledger) -> None:
        """Take tokens, cost and times from the account of its answer, beside those that failed."""
        self.tokens = ledger.output_tokens
        self.prompt_tokens = ledger.prompt_tokens or self.prompt_tokens
        self.cached_tokens = ledger.cached_tokens
        self.cost_pico += ledger.cost_pico
        if ledger.first_token_at_s > 0.0:
            self.decode_s = ledger.finished_at_s - ledger.first_token_at_s

    def ancestors(self) -> list[TreeNode]:
        """The parent, that one's parent and so on up to the root."""
        found, node = [], self.parent
        while node is not None:
            found.append(node)
            node = node.parent
        return found

    def begin(self, label: Label | None, at_s: float) -> None:
        """End the present stretch and begin another one, or none."""
        if self.doing is not None and at_s > self.since_s:
            self.stages.append(Stage(self.doing, self.since_s, at_s))
        self.doing, self.since_s = label, at_s

    def stages_at(self, now_s: float) -> list[Stage]:
        """All stretches, the present one up to `now_s`."""
        if self.doing is None or now_s <= self.since_s:
            return self.stages
        return [*self.stages, Stage(self.doing, self.since_s, now_s)]


class RunTree:
    """A tree and its order.

    Args:
        root: The program of one run, or the root of several runs.

    Attributes:
        root: The same.
        currency: Currency of the costs; "" without prices.
    """

    def __init__(self, root: TreeNode) -> None:
        self.root = root
        self.currency = ""
        root.counts.nodes[group_of(root.state)] += 1

    def add(self, node: TreeNode) -> None:
        """Add a node below its parent, as the last one."""
        assert node.parent is not None
        node.parent.children.append(node)
        group = group_of(node.state)
        node.counts.nodes[group] += 1
        for above in node.ancestors():
            above.counts.nodes[group] += 1

    def change(self, node: TreeNode, state: State) -> None:
        """Change the state of a node, and the counts with it."""
        before, after = group_of(node.state), group_of(state)
        node.state = state
        if before != after:
            for one in (node, *node.ancestors()):
                one.counts.nodes[before] -= 1
                one.counts.nodes[after] += 1

    def account(self, node: TreeNode) -> None:
        """Add tokens and cost of a node that has ended to the counts."""
        if node.tokens or node.cost_pico:
            for one in (node, *node.ancestors()):
                one.counts.tokens += node.tokens
                one.counts.cost_pico += node.cost_pico

    def end_s(self, now_s: float) -> float:
        """End of the time that the tree covers."""
        return now_s if self.root.ended_at_s is None else self.root.ended_at_s
