"""Start and end of spans, in whole microseconds.

Jaeger's critical path counts a span as before another only if it ends strictly earlier, so a span
begins 2 us after its cause. Shifts are that small; exact times are in the attributes.
"""

from __future__ import annotations

from operator import itemgetter

from agentrt.analysis import Causes, Input, NodeRecord, RunRecord
from agentrt.base.ids import NodeId
from agentrt.telemetry.run_clock import RunClock

GAP_US = 2


class Timeline:
    """Start and end of every node, streamed item and cancellation of one record.

    Args:
        record: A finished run.
        causes: Causes of the same record.

    Attributes:
        clock: Clock of the run.
        start_us: First instant of each node.
        end_us: Instant after the last of each node.
        item_us: Both of each streamed item.
        stop_us: Both of the time from each cancellation to the node's end.
    """

    def __init__(self, record: RunRecord, causes: Causes) -> None:
        self._record = record
        self._causes = causes
        self.clock = RunClock(record.started)
        self.start_us: dict[NodeId, int] = {}
        self.end_us: dict[NodeId, int] = {}
        self.item_us: dict[tuple[NodeId, int], tuple[int, int]] = {}
        self.stop_us: dict[NodeId, tuple[int, int]] = {}
        self._item_end_us: dict[NodeId, int] = {}
        self._latest_child_us: dict[NodeId, int] = {}
        self._place_all()

    def _place_all(self) -> None:
        """Place in causal order, so that every cause is placed before its effects."""
        moments: list[tuple[int, int, NodeRecord, int | None]] = []
        for node in self._record.nodes.values():
            moments.append((node.end_seq, 0, node, None))
            if node.items:
                moments += [(closed.seq, 1, node, index) for index, closed in node.items.items()]
        moments.sort(key=itemgetter(0, 1))
        for _, _, node, item in moments:
            if item is None:
                self._end(node)
            else:
                self._item(node, item)

    def _end(self, node: NodeRecord) -> None:
        begin = self._start(node)
        parent = node.declared.parent
        end_s = self._record.end_of(node) if parent else self._record.ended_at_s
        latest = self._latest_child_us.get(node.node_id, 0)
        end = max(self.clock.us(end_s), begin + 1, latest)
        stopped_at_s = self._causes.stopped_at_s(node)
        if stopped_at_s is not None:
            waited = self._causes.before_stop(node)
            stop = max(self.clock.us(stopped_at_s), begin, self._after(waited) if waited else 0)
            end = max(end, stop + 1)
            self.stop_us[node.node_id] = (stop, end)
        self.end_us[node.node_id] = end
        if parent is not None:
            self._latest_child_us[parent] = max(end, self._latest_child_us.get(parent, 0))

    def _start(self, node: NodeRecord) -> int:
        known = self.start_us.get(node.node_id)
        if known is None:
            known = self._earliest(node)
            self.start_us[node.node_id] = known
        return known

    def _earliest(self, node: NodeRecord) -> int:
        cause = self._causes.last(node)
        if cause is None:
            return self.clock.us(self._record.started_at_s)
        ready = self.clock.us(cause.at_s)
        if cause.how != "declared":
            return max(ready, self._after(cause))
        waited = self._causes.before_declaration(node)
        ready = max(ready, self._start(cause.node))
        return ready if waited is None else max(ready, self._after(waited))

    def _after(self, given: Input) -> int:
        """The first instant after an input."""
        if given.item is not None:
            placed = self.item_us.get((given.node.node_id, given.item))
            return placed[1] + GAP_US if placed else 0
        return self.end_us.get(given.node.node_id, 0) + GAP_US

    def _item(self, node: NodeRecord, item: int) -> None:
        before = self._item_end_us.get(node.node_id)
        begin = self._start(node) if before is None else before + GAP_US
        end = max(self.clock.us(node.items[item].at_s), begin + 1)
        self.item_us[(node.node_id, item)] = (begin, end)
        self._item_end_us[node.node_id] = end
