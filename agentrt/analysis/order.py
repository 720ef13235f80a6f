"""Topological order of nodes: every input comes before the nodes that it feeds."""

from __future__ import annotations

from heapq import heappop, heappush

from agentrt.analysis.causes import Causes
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.errors import InternalError
from agentrt.base.ids import NodeId


def order(record: RunRecord) -> tuple[NodeRecord, ...]:
    """Topological order along data edges and declarations; ties by declaration.

    Raises:
        InternalError: The edges form a cycle, which no run can produce.
    """
    causes = Causes(record)
    feeds: dict[NodeId, list[NodeRecord]] = {node_id: [] for node_id in record.nodes}
    open_inputs: dict[NodeId, int] = {}
    for node in record.nodes.values():
        sources = {given.node.node_id for given in causes.inputs(node)}
        open_inputs[node.node_id] = len(sources)
        for source in sources:
            feeds[source].append(node)
    ready = [(node.seq, node.node_id) for node in record.nodes.values()]
    ready = sorted(entry for entry in ready if not open_inputs[entry[1]])
    done: list[NodeRecord] = []
    while ready:
        _, node_id = heappop(ready)
        done.append(record.nodes[node_id])
        for fed in feeds[node_id]:
            open_inputs[fed.node_id] -= 1
            if not open_inputs[fed.node_id]:
                heappush(ready, (fed.seq, fed.node_id))
    if len(done) < len(record.nodes):
        stuck = sorted(set(record.nodes) - {node.node_id for node in done})
        raise InternalError(f"the graph of run {record.run_id} has a circle through {stuck[0]}")
    return tuple(done)
