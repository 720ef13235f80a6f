"""Inputs of each node, and which of them came last.

A node becomes ready when its last input arrives: the values it needs, the item of a streamed plan
that started it, or the program's code reaching its declaration. The last-arriving input is its
cause; walking causes back from the end of the run gives the critical path.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal

from agentrt.analysis.run_record import NEVER, NodeRecord, RunRecord
from agentrt.analysis.stage import Stage
from agentrt.base.ids import NodeId, RequestId
from agentrt.base.record import record
from agentrt.protocol.step_output import StepRecord

_finished_seq = attrgetter("finished_seq")


@record
class Input:
    """Something that a node, or a program's code, waited for.

    Attributes:
        how: A whole value, a part of one, or code that reached a declaration.
        node: Node of the value or part; for a declaration, the program with the code.
        at_s: When it arrived.
        item: Index of the item that the part was; None where code read along as text came.
    """

    how: Literal["value", "item", "declared"]
    node: NodeRecord
    at_s: float
    item: int | None = None


def _late(given: Input) -> tuple[float, bool]:
    return given.at_s, given.how != "declared"


class Causes:
    """Inputs of the nodes of one record, looked up once.

    Args:
        record: A run; it must not change any more.

    Attributes:
        record: The run.
        staged: Stages of nodes, as `stages` has worked them out.
    """

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self._arrived: dict[NodeId, list[NodeRecord]] = {}
        self._inputs: dict[NodeId, tuple[Input, ...]] = {}
        self._last: dict[NodeId, Input | None] = {}
        self._declared: dict[NodeId, Input | None] = {}
        self._steps: dict[RequestId, list[StepRecord]] | None = None
        self.staged: dict[NodeId, tuple[Stage, ...]] = dict(record.staged)

    def inputs(self, node: NodeRecord) -> tuple[Input, ...]:
        """All inputs that had arrived when the node ended, the declaration first."""
        known = self._inputs.get(node.node_id)
        if known is None:
            known = self._inputs[node.node_id] = tuple(self._inputs_of(node))
        return known

    def last(self, node: NodeRecord) -> Input | None:
        """The input that arrived last; None for the root. Of equals, a value before code."""
        node_id = node.node_id
        if node_id not in self._last:
            inputs = self.inputs(node)
            self._last[node_id] = (
                inputs[0] if len(inputs) == 1 else max(inputs, key=_late, default=None)
            )
        return self._last[node_id]

    def ready_at_s(self, node: NodeRecord) -> float:
        """From when on the node could run."""
        last = self._last.get(node.node_id) or self.last(node)
        return last.at_s if last is not None else node.declared.at_s

    def before_declaration(self, node: NodeRecord) -> Input | None:
        """Last input of the declaring code; None if it came straight from its start."""
        node_id, parent = node.node_id, node.parent
        if parent is None:
            return None
        if node_id not in self._declared:
            declared = node.declared
            self._declared[node_id] = self._waited(
                parent, declared.after, declared.after_item, node.seq, declared.at_s
            )
        return self._declared[node_id]

    def before_end(self, program: NodeRecord) -> Input | None:
        """Last input of a program's code, or of the end of its scope."""
        finished, seq = program.finished, program.finished_seq
        if finished is None:
            return self._done(program, NEVER, demanded_only=False)
        names_input = finished.after is not None or self.record.has_end_after
        if finished.stopped_at_s is not None or not names_input:
            return self._done(program, seq, demanded_only=False)
        return self._waited(program, finished.after, finished.after_item, seq, finished.at_s)

    def stopped_at_s(self, node: NodeRecord) -> float | None:
        """When code asked for the node's end; None when it ended by itself."""
        finished = node.finished
        if finished is None or finished.outcome != "cancelled" or finished.stopped_at_s is None:
            return None
        return max(finished.stopped_at_s, self.ready_at_s(node))

    def before_stop(self, node: NodeRecord) -> Input | None:
        """Last input of the code that cancelled the node."""
        parent, finished = node.parent, node.finished
        if parent is None or finished is None or finished.stopped_at_s is None:
            return None
        after, item = finished.after, finished.after_item
        return self._waited(parent, after, item, node.finished_seq, finished.stopped_at_s)

    def steps_of(self, request_id: RequestId) -> Sequence[StepRecord]:
        """Steps of the engine that had a request in their batch, in order."""
        if self._steps is None:
            self._steps = defaultdict(list)
            for step in self.record.steps:
                for member in step.requests:
                    self._steps[member].append(step)
        return self._steps.get(request_id, ())

    def _inputs_of(self, node: NodeRecord) -> list[Input]:
        found: list[Input] = []
        declared = node.declared
        parent = node.parent
        if parent is not None:
            found.append(Input("declared", parent, declared.at_s))
        plan = self.record.nodes.get(declared.plan) if declared.plan else None
        closed = plan.items.get(declared.plan_item) if plan else None
        if plan is not None and closed is not None and closed.seq < node.seq:
            found.append(Input("item", plan, closed.at_s, declared.plan_item))
        until = self._began_seq(node)
        for dep_id in declared.deps:
            dep = self.record.nodes.get(dep_id)
            if dep is None or (dep is plan and closed is not None) or dep is node:
                continue
            if dep.finished is not None and dep.finished_seq < until:
                found.append(Input("value", dep, dep.finished.at_s))
        return found

    def _waited(
        self,
        program: NodeRecord,
        after: NodeId | None,
        item: int | None,
        before_seq: int,
        at_s: float,
    ) -> Input | None:
        """Node named by `after`; without such an event, the last demanded child to finish.

        A generation that had not ended was read along: code went on, at `at_s`, with its text.
        """
        node = self.record.nodes.get(after) if after else None
        if node is None:
            return None if self.record.has_after else self._done(program, before_seq)
        if item is not None:
            closed = node.items.get(item)
            if closed is not None and closed.seq < before_seq:
                return Input("item", node, closed.at_s, item)
        if node.finished is not None and node.finished_seq < before_seq:
            return Input("value", node, node.finished.at_s)
        if item is None and node.kind == "generate" and node.seq < before_seq:
            return Input("item", node, at_s)
        return None

    def _done(
        self, program: NodeRecord, before_seq: int, *, demanded_only: bool = True
    ) -> Input | None:
        """The child of `program` that was the last to finish before an event."""
        done = self._arrived.get(program.node_id)
        if done is None:
            ended = (child for child in program.children if child.finished)
            done = sorted(ended, key=_finished_seq)
            self._arrived[program.node_id] = done
        place = bisect_left(done, before_seq, key=_finished_seq)
        for child in reversed(done[:place]):
            wanted = child.demanded_at_s is not None and child.outcome != "cancelled"
            if wanted or not demanded_only:
                return Input("value", child, self.record.end_of(child))
        return None

    def _began_seq(self, node: NodeRecord) -> int:
        """Values that came later than this event were no input: the node had ended, or begun."""
        if node.kind == "program" and node.children:
            return node.children[0].seq
        return node.finished_seq if node.finished else NEVER
