"""Slack of a node: how much later it could have ended without delaying its run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from operator import attrgetter

from agentrt.analysis.causes import Causes
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.ids import NodeId
from agentrt.base.record import record

_end_seq = attrgetter("end_seq")


@record
class LatestEnd:
    """Latest end of a node that delays nothing, and the time until then."""

    node_id: NodeId
    gap_s: float


def slack_s(record: RunRecord, causes: Causes | None = None) -> dict[NodeId, float]:
    """Slack by node, never negative; 0 for every node with its end on the critical path.

    All other durations are taken as measured. An input that arrived before the last one may come
    later by the difference; code that waited for a node moves with it; a node without demand must
    end by the end of its program.
    """
    bounds = _bounds(record, causes or Causes(record))
    found: dict[NodeId, float] = {}
    for node_id in _latest_first(record, bounds):
        limits = [bound.gap_s + found[bound.node_id] for bound in bounds[node_id]]
        found[node_id] = max(0.0, min(limits, default=0.0))
    return found


def _latest_first(record: RunRecord, bounds: dict[NodeId, list[LatestEnd]]) -> Iterable[NodeId]:
    """All nodes, each behind those that bound it.

    A node ends before what needs its value, and before the program around it. Only a streamed plan
    may end after the tools that it started; then the bounds themselves have to be sorted.
    """
    nodes = sorted(record.nodes.values(), key=_end_seq, reverse=True)
    placed: set[NodeId] = set()
    for node in nodes:
        if not placed.issuperset([bound.node_id for bound in bounds[node.node_id]]):
            needs = {one: [bound.node_id for bound in bounds[one]] for one in record.nodes}
            return TopologicalSorter(needs).static_order()
        placed.add(node.node_id)
    return [node.node_id for node in nodes]


def _bounds(record: RunRecord, causes: Causes) -> dict[NodeId, list[LatestEnd]]:
    found: dict[NodeId, list[LatestEnd]] = defaultdict(list)
    for node in record.nodes.values():
        ready_at_s = causes.ready_at_s(node)
        for given in causes.inputs(node):
            if given.how != "declared":
                gap_s = ready_at_s - given.at_s
                found[given.node.node_id] += _begins_with(node, gap_s, causes)
        waited = causes.before_declaration(node)
        if waited is not None:
            gap_s = ready_at_s - node.declared.at_s
            found[waited.node.node_id] += _begins_with(node, gap_s, causes)
        stopper = causes.before_stop(node) if causes.stopped_at_s(node) is not None else None
        if stopper is not None:
            found[stopper.node.node_id].append(LatestEnd(node.node_id, 0.0))
        for child in node.children:
            gap_s = record.end_of(node) - record.end_of(child)
            found[child.node_id].append(LatestEnd(node.node_id, gap_s))
        if node.kind == "program":
            last = causes.before_end(node)
            if last is not None and last.node is not node:
                found[last.node.node_id].append(LatestEnd(node.node_id, 0.0))
    return found


def _begins_with(node: NodeRecord, gap_s: float, causes: Causes) -> Iterator[LatestEnd]:
    """A node that may begin later by `gap_s`; for a program, also what its code made at once."""
    yield LatestEnd(node.node_id, gap_s)
    for child in node.children:
        if causes.before_declaration(child) is None:
            more_s = causes.ready_at_s(child) - child.declared.at_s
            yield from _begins_with(child, gap_s + more_s, causes)
