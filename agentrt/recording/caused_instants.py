"""Instants from which code and runtime alone decided when a node began."""

from __future__ import annotations

from agentrt.analysis.causes import Causes
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.ids import NodeId


class CausedInstants:
    """For each node, the arrival of the last value or item that it or its code waited for.

    What lies between that and its beginning is time of code, runtime and network. A replay that
    repeats it keeps the order in which nodes end.

    Args:
        record: A finished run.
    """

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._causes = Causes(record)
        self._known: dict[NodeId, float] = {}

    def of(self, node: NodeRecord) -> float:
        """The instant of a node."""
        known = self._known.get(node.node_id)
        if known is None:
            arrivals = [
                self._declared(node) if given.how == "declared" else given.at_s
                for given in self._causes.inputs(node)
            ]
            known = max(arrivals, default=self._record.started_at_s)
            self._known[node.node_id] = known
        return known

    def _declared(self, node: NodeRecord) -> float:
        waited = self._causes.before_declaration(node)
        if waited is not None:
            return waited.at_s
        return self._record.started_at_s if node.parent is None else self.of(node.parent)
