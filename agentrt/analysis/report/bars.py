"""Bars of a timeline: one for each node with work of its own."""

from __future__ import annotations

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import PathStep
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.stage import Stage
from agentrt.analysis.stages import stages
from agentrt.base.ids import NodeId
from agentrt.base.record import record as value


@value
class Bar:
    """Bar of one node.

    Attributes:
        node_id: The node.
        name: Id below the program.
        site: Name of its call site: that of all nodes which the same code makes.
        start_s: From the run's start to its last input.
        end_s: From the run's start to its end.
        stages: Stages of the node, in order.
        critical: Whether the critical path goes through it.
        outcome: Kind of its end; "" while it is open.
    """

    node_id: NodeId
    name: str
    site: str
    start_s: float
    end_s: float
    stages: tuple[Stage, ...]
    critical: bool
    outcome: str


def bars(record: RunRecord, path: tuple[PathStep, ...], causes: Causes) -> tuple[Bar, ...]:
    """The bars of a finished run, in order of their start.

    Args:
        record: A finished run.
        path: Critical path of the record.
        causes: Causes of the same record.
    """
    on_path = {step.node_id for step in path}
    made = [
        Bar(
            node.node_id,
            node.node_id.partition("/")[2] or node.node_id,
            node.name,
            causes.ready_at_s(node) - record.started_at_s,
            record.end_of(node) - record.started_at_s,
            stages(record, node, causes),
            node.node_id in on_path,
            node.outcome or "",
        )
        for node in record.leaves()
    ]
    return tuple(sorted(made, key=lambda bar: bar.start_s))
