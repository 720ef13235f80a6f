"""Parallelism: how much of a run's work went on at the same time."""

from __future__ import annotations

from agentrt.analysis.causes import Causes
from agentrt.analysis.run_record import RunRecord


def work_s(record: RunRecord, causes: Causes | None = None) -> float:
    """Total time of all generations, tools and questions from their last input on."""
    causes = causes or Causes(record)
    spent_s = [
        record.end_of(node) - causes.ready_at_s(node)
        for node in record.nodes.values()
        if node.kind != "program"
    ]
    return sum([one for one in spent_s if one > 0.0])


def parallelism(record: RunRecord, causes: Causes | None = None) -> float:
    """Average number of nodes at work."""
    return work_s(record, causes) / record.compound_s if record.compound_s > 0.0 else 0.0
