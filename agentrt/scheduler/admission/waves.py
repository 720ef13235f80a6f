"""Waves of forks: KV that an admitted fork has committed, and that its waiting branches leave.

Branches that wait in the engine have no pages yet. The engine serves more urgent requests first, so
a more urgent run may be admitted in their place; the next wave begins later for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentrt.scheduler.runs.run import NodeState, RunState


def waiting_tokens(run: RunState, role: str, committed_tokens: float) -> float:
    """Part of what an admitted run has committed on an engine that its waiting branches would take.

    Its longest context stays committed: one branch may always go on.

    Args:
        run: The run.
        role: Role of the engine.
        committed_tokens: Tokens that count for the run there.
    """
    footprint = run.footprints.get(role)
    if footprint is None or not run.waiting or not committed_tokens:
        return 0.0
    branches = [node for node in run.nodes.values() if node.model == role and _is_in_engine(node)]
    begun = sum(node.context_tokens for node in branches if node.started_at_s is not None)
    largest = max((node.context_tokens for node in branches), default=0.0)
    pinned = max(begun, largest) + footprint.shared_tokens
    return max(0.0, committed_tokens - max(pinned, footprint.longest_tokens))


def _is_in_engine(node: NodeState) -> bool:
    return node.kind == "generate" and node.status == "running"


def with_waves(free: Mapping[str, float], left: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Free tokens by role, with what less urgent forks leave."""
    room = dict(free)
    for given in left:
        for role, tokens in given.items():
            room[role] += tokens
    return room
