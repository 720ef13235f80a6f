"""Two runs of a program side by side: what got slower or faster, and where its path changed."""

from __future__ import annotations

from typing import Any

from agentrt.base.record import record
from agentrt.telemetry.figure_objects import figures_object, node_object, run_object, shown_ms
from agentrt.telemetry.node_figures import (
    STAGES,
    Figures,
    NodeFigures,
    RunFigures,
    node_figures,
    run_figures,
)
from agentrt.telemetry.node_pairs import node_pairs
from agentrt.telemetry.span import Trace
from agentrt.telemetry.waits import TraceNodes

SCHEMA = "agentrt.diff/1"
LEAST_MS = 0.001  # of a change: the resolution of a trace


@record
class NodeChange:
    """A place of the program in two runs; at least one of them has a node there.

    Attributes:
        a: Node in the first run, or None.
        b: Node in the second run, or None.
    """

    a: NodeFigures | None
    b: NodeFigures | None

    @property
    def node(self) -> NodeFigures:
        """The node, of the second run if that has it."""
        found = self.b or self.a
        assert found is not None
        return found

    @property
    def took_ms(self) -> float:
        """Time that the second run took more; 0 if one of them has no node there."""
        if self.a is None or self.b is None:
            return 0.0
        return self.b.figures.took_ms - self.a.figures.took_ms

    @property
    def wait_ms(self) -> dict[str, float]:
        """The same by part of the node's time."""
        if self.a is None or self.b is None:
            return {}
        labels = dict.fromkeys((*self.a.wait_ms, *self.b.wait_ms))
        before, after = self.a.wait_ms, self.b.wait_ms
        return {label: after.get(label, 0.0) - before.get(label, 0.0) for label in labels}


@record
class TraceDiff:
    """Two runs and their nodes, paired by place.

    Attributes:
        a: First run.
        b: Second run.
        nodes: Nodes of both, parents before their children.
    """

    a: RunFigures
    b: RunFigures
    nodes: tuple[NodeChange, ...]

    @property
    def slower(self) -> list[NodeChange]:
        """Leaves that took longer in the second run, the largest change first."""
        return sorted(self._leaves(+1), key=lambda one: -one.took_ms)

    @property
    def faster(self) -> list[NodeChange]:
        """Leaves that took less time in the second run, the largest change first."""
        return sorted(self._leaves(-1), key=lambda one: one.took_ms)

    @property
    def left_path(self) -> list[NodeChange]:
        """Places on the critical path of the first run alone."""
        return [one for one in self.nodes if _is_critical(one.a) and not _is_critical(one.b)]

    @property
    def joined_path(self) -> list[NodeChange]:
        """Places on the critical path of the second run alone."""
        return [one for one in self.nodes if _is_critical(one.b) and not _is_critical(one.a)]

    def _leaves(self, sign: int) -> list[NodeChange]:
        leaves = (one for one in self.nodes if one.node.kind != "program")
        return [one for one in leaves if one.took_ms * sign >= LEAST_MS]


def trace_diff(a: Trace, b: Trace) -> TraceDiff:
    """The difference of two runs."""
    left, right = TraceNodes(a), TraceNodes(b)
    nodes = [
        NodeChange(
            None if pair.a is None else node_figures(left, left.nodes[pair.a]),
            None if pair.b is None else node_figures(right, right.nodes[pair.b]),
        )
        for pair in node_pairs(left, right)
    ]
    return TraceDiff(run_figures(a.trace_id, left), run_figures(b.trace_id, right), tuple(nodes))


def change_of(a: Figures, b: Figures) -> Figures:
    """The second less the first; no cost if their currencies differ."""
    mixed = a.currency and b.currency and a.currency != b.currency
    return Figures(
        took_ms=b.took_ms - a.took_ms,
        stage_ms={stage: b.stage_ms[stage] - a.stage_ms[stage] for stage in STAGES},
        input_tokens=b.input_tokens - a.input_tokens,
        cached_tokens=b.cached_tokens - a.cached_tokens,
        output_tokens=b.output_tokens - a.output_tokens,
        cost_pico=b.cost_pico - a.cost_pico,
        currency=a.currency or b.currency if not mixed else "",
    )


def diff_object(diff: TraceDiff) -> dict[str, Any]:
    """The difference as data, `agentrt.diff/1`; times in ms, money as exact decimal text."""
    return {
        "schema": SCHEMA,
        "a": run_object(diff.a),
        "b": run_object(diff.b),
        "compound_ms": shown_ms(diff.b.compound_ms - diff.a.compound_ms),
        "split_ms": {label: shown_ms(ms) for label, ms in split_change(diff).items()},
        "total": figures_object(change_of(diff.a.total, diff.b.total)),
        "nodes": [
            {
                "a": None if one.a is None else node_object(one.a),
                "b": None if one.b is None else node_object(one.b),
                "took_ms": shown_ms(one.took_ms),
            }
            for one in diff.nodes
        ],
        "slower": [one.node.node_id for one in diff.slower],
        "faster": [one.node.node_id for one in diff.faster],
        "critical_path": {
            "left": [one.node.node_id for one in diff.left_path],
            "joined": [one.node.node_id for one in diff.joined_path],
        },
    }


def split_change(diff: TraceDiff) -> dict[str, float]:
    """Time that the second run spent more on its critical path, by label of what changed."""
    labels = dict.fromkeys((*diff.a.split_ms, *diff.b.split_ms))
    change = {
        label: diff.b.split_ms.get(label, 0.0) - diff.a.split_ms.get(label, 0.0) for label in labels
    }
    return {label: ms for label, ms in change.items() if abs(ms) >= LEAST_MS}


def _is_critical(node: NodeFigures | None) -> bool:
    return node is not None and node.is_critical
