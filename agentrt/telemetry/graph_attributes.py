"""Attributes that hold the graph of a run, so that its record can be read back from its trace."""

from __future__ import annotations

from collections import defaultdict

from agentrt.analysis import Causes, NodeRecord, RunRecord, stages
from agentrt.base.ids import NodeId
from agentrt.telemetry import names
from agentrt.telemetry.span import Attributes


class GraphAttributes:
    """Attributes of the nodes of one record.

    Args:
        record: A finished run.
        causes: Causes of the same record.
    """

    def __init__(self, record: RunRecord, causes: Causes) -> None:
        self._record = record
        self._causes = causes
        self._zero_s = record.started_at_s
        self._items = _items_waited_for(record)

    def of(self, node: NodeRecord) -> Attributes:
        """The attributes of a node; what does not apply is left out.

        Instants are ms since the run began; digits beyond microseconds keep the order of events.
        This runs for each node of a run, so it calls little, and gives texts where numbers or
        lists would take longer to write. Rounding to an integer takes a quarter of the time of
        rounding to a number of decimals.
        """
        declared, finished, zero_s = node.declared, node.finished, self._zero_s
        order = f"{node.seq} {node.finished_seq}" if finished is not None else f"{node.seq}"
        declared_ms = round((declared.at_s - zero_s) * 1e9) / 1e6
        given: Attributes = {names.NODE_DECLARED_MS: declared_ms, names.NODE_ORDER: order}
        if node.demanded_at_s is not None:
            given[names.NODE_DEMANDED_MS] = round((node.demanded_at_s - zero_s) * 1e9) / 1e6
        if declared.plan is not None:
            given[names.NODE_PLAN] = declared.plan
        if declared.after is not None:
            given[names.NODE_AFTER] = declared.after
        if declared.after_item is not None:
            given[names.NODE_AFTER_ITEM] = declared.after_item
        if finished is not None:
            given[names.NODE_ENDED_MS] = round((finished.at_s - zero_s) * 1e9) / 1e6
            if finished.after is not None:
                given[names.NODE_END_AFTER] = finished.after
            if finished.after_item is not None:
                given[names.NODE_END_AFTER_ITEM] = finished.after_item
            if finished.stopped_at_s is not None:
                given[names.NODE_STOPPED_MS] = round((finished.stopped_at_s - zero_s) * 1e9) / 1e6
        if (items := self._items.get(node.node_id)) is not None:
            given[names.NODE_ITEMS] = _text_of_items(node, items, zero_s)
        if node.kind != "program":
            spent = self._causes.staged.get(node.node_id)
            spent = stages(self._record, node, self._causes) if spent is None else spent
            texts = []
            for stage in spent:
                ms = round((stage.ended_at_s - stage.started_at_s) * 1e9) / 1e6
                text = f"{stage.label} {ms!r}"
                for label, seconds in stage.shares:
                    text += f" {label} {(round(seconds * 1e9) / 1e6)!r}"
                texts.append(text)
            given[names.NODE_STAGES] = ", ".join(texts)
        return given


def _items_waited_for(record: RunRecord) -> dict[NodeId, set[int]]:
    """Items of streamed outputs that started a tool or that code waited for."""
    found: dict[NodeId, set[int]] = defaultdict(set)
    for node in record.nodes.values():
        declared, finished = node.declared, node.finished
        if declared.plan is not None:
            found[declared.plan].add(declared.plan_item)
        if declared.after is not None and declared.after_item is not None:
            found[declared.after].add(declared.after_item)
        if finished is not None and finished.after is not None and finished.after_item is not None:
            found[finished.after].add(finished.after_item)
    return found


def _text_of_items(node: NodeRecord, items: set[int], zero_s: float) -> str:
    """Index, ms since the run began, and place in causal order of each item that has closed."""
    closed = [(item, node.items[item]) for item in sorted(items) if item in node.items]
    return ", ".join(
        [f"{item} {(round((one.at_s - zero_s) * 1e9) / 1e6)!r} {one.seq}" for item, one in closed]
    )
