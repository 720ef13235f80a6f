"""The tree of a finished run, from its record: exact stretches, and the critical path."""

from __future__ import annotations

from agentrt.analysis import Causes, NodeRecord, RunRecord, critical_path, saving_s, stages
from agentrt.base.ids import NodeId
from agentrt.cli.run_tree.node import RunTree, TreeNode


def tree_of_record(record: RunRecord, *, with_savings: bool = False) -> RunTree | None:
    """The tree of a finished run; None if its program did not begin.

    Args:
        record: The run.
        with_savings: Whether to work out what each node of the critical path costs the run, which
            takes a pass over the run for each of them. One that was cut off has none: how long it
            would have taken is not known.
    """
    causes = Causes(record)
    on_path = {step.node_id for step in critical_path(record, causes)}
    tree: RunTree | None = None
    made: dict[NodeId, TreeNode] = {}
    for node in record.nodes.values():
        parent = made.get(node.declared.parent) if node.declared.parent else None
        one = made[node.node_id] = _node(record, node, causes, parent)
        one.critical = node.node_id in on_path
        if one.critical and with_savings and node.kind != "program" and not node.is_cut_off:
            one.saving_s = max(0.0, saving_s(record, node.node_id, causes))
        if tree is None:
            tree = RunTree(one)
        elif parent is not None:
            tree.add(one)
        if tree is not None:
            ledger = node.ledger
            tree.currency = tree.currency or (ledger.currency if ledger is not None else "")
            tree.account(one)
    return tree


def _node(record: RunRecord, node: NodeRecord, causes: Causes, parent: TreeNode | None) -> TreeNode:
    finished = node.finished
    one = TreeNode(
        key=node.node_id,
        name=node.node_id.rpartition("/")[2],
        kind=node.kind,
        parent=parent,
        started_at_s=causes.ready_at_s(node) if parent is not None else record.started_at_s,
        state=node.outcome or "cancelled",
        stages=list(stages(record, node, causes)),
        ended_at_s=record.end_of(node) if parent is not None else record.ended_at_s,
        first_token_at_s=node.first_token_at_s,
        prompt_tokens=node.sent[-1].prompt_tokens if node.sent else 0,
        cost_pico=sum(attempt.ledger.cost_pico for _, attempt in node.failed),
    )
    if finished is None:
        one.why = "the run ended"
    else:
        one.why = finished.error.type if finished.error is not None else finished.reason
    if node.ledger is not None:
        one.take(node.ledger)
    return one
