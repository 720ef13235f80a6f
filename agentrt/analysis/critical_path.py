"""Critical path of a run: the chain of waits that determined its latency."""

from __future__ import annotations

from typing import Literal

from agentrt.analysis.causes import Causes, Input
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.ids import NodeId
from agentrt.base.record import record

Part = Literal["submit", "code", "work", "stop"]


@record
class PathStep:
    """An interval of the path, attributed to one node.

    Attributes:
        node_id: The node; "" if the run failed before its program began.
        part: `submit` until the program began, `code` of a program between two waits, `work` of a
            generation, tool or question from its last input on, `stop` of a node that code
            cancelled, until its end.
        started_at_s: First instant.
        ended_at_s: First instant of the next step.
        item: Streamed item at which the path leaves the node; None if it is its end.
    """

    node_id: NodeId
    part: Part
    started_at_s: float
    ended_at_s: float
    item: int | None = None

    @property
    def length_s(self) -> float:
        """Duration of the step."""
        return self.ended_at_s - self.started_at_s


def critical_path(record: RunRecord, causes: Causes | None = None) -> tuple[PathStep, ...]:
    """Steps from submit to result without gap or overlap, the earliest first.

    The walk starts at the result and goes back along the input that arrived last: from a program's
    code to the node it waited for, from a node to its latest value, to the item of the plan that
    started it, or to the code that declared it. Events are in causal order and each move goes to an
    earlier one, so the walk ends.

    Args:
        record: A finished run.
        causes: Causes of the same record, if already known.
    """
    return _CriticalWalk(record, causes or Causes(record)).steps()


class _CriticalWalk:
    def __init__(self, record: RunRecord, causes: Causes) -> None:
        self._record = record
        self._causes = causes
        self._at_s = record.ended_at_s
        self._found: list[PathStep] = []

    def steps(self) -> tuple[PathStep, ...]:
        root = self._record.root
        if root is None:
            self._go_back(NodeId(""), "submit", self._record.started_at_s)
            return tuple(self._found)
        program: NodeRecord | None = root
        waited = self._causes.before_end(root)
        while program is not None:
            while waited is not None:
                self._go_back(program.node_id, "code", waited.at_s)
                program, waited = self._through(waited)
            self._go_back(program.node_id, "code", self._causes.ready_at_s(program))
            program, waited = self._before_start(program)
        self._go_back(root.node_id, "submit", self._record.started_at_s)
        return tuple(reversed(self._found))

    def _through(self, given: Input) -> tuple[NodeRecord, Input | None]:
        """Go from the arrival of a value or an item back to the code that led to it."""
        while True:
            node = given.node
            parent = node.parent
            stopped_at_s = self._causes.stopped_at_s(node) if given.how == "value" else None
            if stopped_at_s is not None and parent is not None:
                self._go_back(node.node_id, "stop", stopped_at_s)
                return parent, self._causes.before_stop(node)
            if node.kind == "program" and given.how == "value":
                return node, self._causes.before_end(node)
            self._go_back(node.node_id, "work", self._causes.ready_at_s(node), given.item)
            cause = self._causes.last(node)
            if cause is None:
                return node, None
            if cause.how == "declared":
                return cause.node, self._causes.before_declaration(node)
            given = cause

    def _before_start(self, program: NodeRecord) -> tuple[NodeRecord | None, Input | None]:
        """Go from the first instant of a program back to the code that called it."""
        cause = self._causes.last(program)
        if cause is None:
            return None, None
        if cause.how == "declared":
            return cause.node, self._causes.before_declaration(program)
        return self._through(cause)

    def _go_back(self, node_id: NodeId, part: Part, to_s: float, item: int | None = None) -> None:
        """Add the step that ends at the walk's present instant, unless it is empty."""
        to_s = max(min(to_s, self._at_s), self._record.started_at_s)
        if to_s < self._at_s or part in {"work", "stop"}:
            self._found.append(PathStep(node_id, part, to_s, self._at_s, item))
        self._at_s = to_s
