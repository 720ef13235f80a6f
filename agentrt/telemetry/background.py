"""Background spans: nodes that Jaeger's critical path would wrongly go through.

Jaeger walks back from the end of a span through the child that ended last. An undemanded node may
end while a program's own code runs, and the walk would go through it. Such a node is published as
background work: a CONSUMER span, which that walk leaves out below a PRODUCER, and its program is
one. The same holds for prefill before a prompt was complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from operator import attrgetter

from agentrt.analysis import NodeRecord, PathStep, RunRecord
from agentrt.base.ids import NodeId
from agentrt.base.record import record
from agentrt.telemetry.timeline import Timeline

_FOREVER = 1 << 62
_end_us = attrgetter("end_us")


@record
class PathInterval:
    """An interval of the path below a program: one of its children, or one item of it."""

    start_us: int
    end_us: int


class Background:
    """Nodes of a record to publish as background work.

    Args:
        record: A finished run.
        path: Critical path of the run.
        timeline: Positions of its spans.
    """

    def __init__(self, record: RunRecord, path: tuple[PathStep, ...], timeline: Timeline) -> None:
        self._timeline = timeline
        self._through: dict[NodeId, dict[NodeId, list[PathInterval]]] = defaultdict(dict)
        self.critical: set[NodeId] = set()
        self.items: dict[NodeId, int] = {}
        self.stops: set[NodeId] = set()
        for step in path:
            self._add_path_step(record, step)
        self.nodes: set[NodeId] = set()
        for program_id, through in self._through.items():
            stretches = [stretch for child in through.values() for stretch in child]
            stretches.sort(key=_end_us)
            for child in record.nodes[program_id].children:
                in_part = child.node_id in self.items or child.node_id in self.stops
                whole = child.node_id in through and not in_part
                if not whole and self._misleads_walk(child, stretches):
                    self.nodes.add(child.node_id)

    def _add_path_step(self, record: RunRecord, step: PathStep) -> None:
        node = record.nodes.get(step.node_id)
        if node is None:
            return
        self.critical.add(node.node_id)
        item = step.item
        if item is not None:
            self.items[node.node_id] = item
        if step.part == "stop":
            self.stops.add(node.node_id)
        parent_id = node.declared.parent
        if parent_id is not None and (item is not None or step.part == "stop"):
            through = self._through[parent_id].setdefault(node.node_id, [])
            through += self._in_part(node, item)
        while parent_id is not None and (parent := record.nodes.get(parent_id)) is not None:
            start_us = self._timeline.start_us[node.node_id]
            whole = PathInterval(start_us, self._timeline.end_us[node.node_id])
            self._through[parent_id].setdefault(node.node_id, [whole])
            node, parent_id = parent, parent.declared.parent

    def _in_part(self, node: NodeRecord, last_item: int | None) -> list[PathInterval]:
        """A node's time on the path: its end after a cancellation, or its items up to one."""
        if last_item is None:
            return [PathInterval(*self._timeline.stop_us[node.node_id])]
        until_us = self._timeline.item_us[(node.node_id, last_item)][1]
        items = (self._timeline.item_us[(node.node_id, item)] for item in node.items)
        return [PathInterval(start, end) for start, end in items if end <= until_us]

    def _misleads_walk(self, child: NodeRecord, stretches: list[PathInterval]) -> bool:
        """Whether a child ends where the program's own code ran, between two path spans."""
        end_us = self._timeline.end_us[child.node_id]
        index = bisect_right(stretches, end_us, key=_end_us)
        next_us = stretches[index].start_us if index < len(stretches) else _FOREVER
        return end_us < next_us
