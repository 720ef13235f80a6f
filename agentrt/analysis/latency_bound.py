"""The least time that a run could have taken, and the causes of the excess.

The recorded graph is played once more: each node takes its least time and the program's code none.
No node waits for a busy engine, no hop takes time, no token is computed twice; tools take as long
as they took. A prompt with pending parts counts as computed before the last of them came, but for
one forward, which may be less than possible and is never more. The bound is the longest path, or
all the work at once if that takes longer.
"""

from __future__ import annotations

from agentrt.analysis.causes import Causes
from agentrt.analysis.cost_model import ForwardCosts
from agentrt.analysis.critical_path import critical_path
from agentrt.analysis.latency_split import split
from agentrt.analysis.replay import replay_s
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.analysis.stage import Label
from agentrt.base.record import record

_SHOWN = 4


@record
class LatencyBound:
    """The least time of a run.

    Attributes:
        path_s: Seconds of the longest path.
        work_s: Seconds of all its tokens at once.
        excess: Label -> share of the time beyond the bound, the largest first; it sums to 1.
        compound_s: Seconds that the run took.
    """

    path_s: float
    work_s: float
    excess: tuple[tuple[Label, float], ...]
    compound_s: float

    @property
    def least_s(self) -> float:
        """The bound: no engine of these costs takes less."""
        return max(self.path_s, self.work_s)

    @property
    def ratio(self) -> float:
        """Time of the run divided by the bound; infinite if there is nothing to do."""
        return self.compound_s / self.least_s if self.least_s > 0.0 else float("inf")


def bound(record: RunRecord, costs: ForwardCosts) -> LatencyBound:
    """The bound of a run that is over.

    Args:
        record: The run.
        costs: Costs of forwards.
    """
    causes = Causes(record)
    path_s = replay_s(
        record, lambda node, took_s: sum(_least(node, took_s, costs).values()), causes, code=False
    )
    ledgers = [node.ledger for node in record.leaves() if node.ledger is not None]
    prompt = sum(ledger.prompt_tokens - ledger.cached_tokens for ledger in ledgers)
    output = sum(ledger.output_tokens for ledger in ledgers)
    work_s = costs.work_s(prompt, output)
    return LatencyBound(path_s, work_s, _excess(record, causes, costs), record.compound_s)


def _least(node: NodeRecord, took_s: float, costs: ForwardCosts) -> dict[Label, float]:
    """Least seconds of a node from its last input on, by label; never more than it took."""
    if node.kind != "generate":
        return {"tool": min(took_s, _attempts_s(node)) if node.attempts else took_s}
    ledger = node.ledger
    if ledger is None or not ledger.prompt_tokens:
        return {"decode": 0.0}
    new = max(1, ledger.prompt_tokens - ledger.cached_tokens)
    if node.filled_at_s is not None:
        new = 1
    first_s = costs.pass_s(new, ledger.prompt_tokens)
    more = max(0, ledger.output_tokens - ledger.forced_tokens - 1)
    decode_s = costs.decode_s(more, ledger.prompt_tokens)
    first_s = min(first_s, took_s)
    return {"prefill": first_s, "decode": min(decode_s, took_s - first_s)}


def _attempts_s(node: NodeRecord) -> float:
    return sum((one.ended_at_s or one.started_at_s) - one.started_at_s for one in node.attempts)


def _excess(
    record: RunRecord, causes: Causes, costs: ForwardCosts
) -> tuple[tuple[Label, float], ...]:
    """Share of each label in the time that the path took beyond the least times of its nodes."""
    path = critical_path(record, causes)
    over = dict(split(record, path, causes).parts())
    for step in path:
        node = record.nodes.get(step.node_id)
        if step.part != "work" or node is None or node.kind == "program":
            continue
        took_s = record.end_of(node) - causes.ready_at_s(node)
        share = step.length_s / took_s if took_s > 0.0 else 0.0
        for label, seconds in _least(node, took_s, costs).items():
            over[label] -= seconds * share
    positive = {label: seconds for label, seconds in over.items() if seconds > 0.0}
    total = sum(positive.values())
    ordered = sorted(positive.items(), key=lambda pair: -pair[1])
    return tuple((label, seconds / total) for label, seconds in ordered) if total > 0.0 else ()


def bound_line(found: LatencyBound, by: str) -> str:
    """A line such as `2.3x the least by the machine (0.21 s); of the excess: queue 41 %`.

    Args:
        found: The bound of a run that is over.
        by: The costs that the bound stands on, in words.
    """
    if not found.least_s:
        return f"nothing to do {by}"
    parts = ", ".join(f"{label} {share:.0%}" for label, share in found.excess[:_SHOWN])
    line = f"{found.ratio:.1f}x the least {by} ({_seconds(found.least_s)})"
    return f"{line}; of the excess: {parts}" if parts else line


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{seconds * 1e3:.1f} ms"
