"""Replay of a run with other durations: what-if analysis, and a lower bound."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.analysis.causes import Causes, Input
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.ids import NodeId

Length = Callable[[NodeRecord, float], float]


def replay_s(
    record: RunRecord,
    length_s: Length,
    causes: Causes | None = None,
    *,
    code: bool = True,
    item_s: Length | None = None,
) -> float:
    """The compound latency if each node's work took `length_s(node, measured_s)`.

    The recorded graph is replayed: the same nodes, edges and code. Code takes as long as it did, or
    no time; items of a streamed output close at the same fractions of its time. Contention is not
    simulated: nodes that shared the engine keep their measured times unless `length_s` changes
    them.

    Args:
        record: A finished run.
        length_s: Seconds of a generation, tool or question from its last input to its end.
        causes: Causes of the same record, if already known.
        code: Whether code takes its time.
        item_s: Seconds of a generation from its last input to one of its items, by those that were
            measured; None keeps the fractions.
    """
    return _Replay(record, length_s, causes or Causes(record), item_s, code=code).compound_s()


def saving_s(record: RunRecord, node_id: NodeId, causes: Causes | None = None) -> float:
    """Time that the run would save if one node's work took none."""
    free = replay_s(
        record, lambda node, length_s: 0.0 if node.node_id == node_id else length_s, causes
    )
    return record.compound_s - free


class _Replay:
    def __init__(
        self,
        record: RunRecord,
        length_s: Length,
        causes: Causes,
        item_s: Length | None,
        *,
        code: bool,
    ) -> None:
        self._code = 1.0 if code else 0.0
        self._record = record
        self._length_s = length_s
        self._item_s = item_s
        self._causes = causes
        self._declared: dict[NodeId, float] = {}
        self._ready: dict[NodeId, float] = {}
        self._end: dict[NodeId, float] = {}

    def compound_s(self) -> float:
        root = self._record.root
        if root is None:
            return self._record.compound_s
        for _, node, begins in self._moments():
            if begins:
                self._declare(node)
            else:
                self._finish(node)
        after_root_s = self._record.ended_at_s - self._record.end_of(root)
        # Without the time of code the run starts with the declaration of its program.
        start_s = self._record.started_at_s if self._code else root.declared.at_s
        return self._end[root.node_id] + self._code * after_root_s - start_s

    def _moments(self) -> list[tuple[int, NodeRecord, bool]]:
        """Declarations and ends in causal order; unfinished nodes last, innermost first."""
        nodes = self._record.nodes.values()
        moments = [(node.seq, node, True) for node in nodes]
        moments += [(node.end_seq, node, False) for node in nodes]
        return sorted(moments, key=lambda moment: moment[0])

    def _declare(self, node: NodeRecord) -> None:
        at_s, parent = node.declared.at_s, node.parent
        if parent is not None:
            at_s = self._by_code(parent, self._causes.before_declaration(node), at_s)
        self._declared[node.node_id] = at_s

    def _finish(self, node: NodeRecord) -> None:
        old_end_s = self._record.end_of(node)
        stopped_at_s = self._causes.stopped_at_s(node)
        stopper = self._causes.before_stop(node) if stopped_at_s is not None else None
        if stopper is not None:
            self._end[node.node_id] = self._by_code(node, stopper, old_end_s)
            return
        if node.kind != "program":
            length_s = max(0.0, old_end_s - self._causes.ready_at_s(node))
            self._end[node.node_id] = self._ready_of(node) + self._length_s(node, length_s)
            return
        end_s = self._by_code(node, self._causes.before_end(node), old_end_s)
        ended = (child.node_id for child in node.children if child.node_id in self._end)
        self._end[node.node_id] = max([end_s, *(self._end[node_id] for node_id in ended)])

    def _by_code(self, program: NodeRecord, waited: Input | None, old_s: float) -> float:
        """New instant of what code did at `old_s`, after an input or the start of its program."""
        if waited is None:
            return self._ready_of(program) + self._code * (old_s - self._causes.ready_at_s(program))
        return self._arrival(waited) + self._code * (old_s - waited.at_s)

    def _ready_of(self, node: NodeRecord) -> float:
        known = self._ready.get(node.node_id)
        if known is None:
            arrivals = [self._arrival(given, of=node) for given in self._causes.inputs(node)]
            known = max(arrivals, default=self._declared[node.node_id])
            self._ready[node.node_id] = known
        return known

    def _arrival(self, given: Input, of: NodeRecord | None = None) -> float:
        if given.how == "declared" and of is not None:
            return self._declared[of.node_id]
        if given.how != "item":
            return self._end.get(given.node.node_id, given.at_s)
        plan = given.node
        old_ready_s = self._causes.ready_at_s(plan)
        if self._item_s is not None:
            return self._ready_of(plan) + self._item_s(plan, given.at_s - old_ready_s)
        old_length_s = self._record.end_of(plan) - old_ready_s
        if old_length_s <= 0.0:
            return self._ready_of(plan)
        share = (given.at_s - old_ready_s) / old_length_s
        return self._ready_of(plan) + share * self._length_s(plan, old_length_s)
