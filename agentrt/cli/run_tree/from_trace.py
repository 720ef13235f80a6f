"""The tree of a past run, from its trace file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

from agentrt.analysis.stage import Label, Stage
from agentrt.base.money import PICO
from agentrt.cli.run_tree.node import RunTree, State, TreeNode
from agentrt.telemetry import Span, names
from agentrt.telemetry.reading import number_of
from agentrt.telemetry.span import Trace

_ENGINE = "engine."
_LABELS: tuple[str, ...] = get_args(Label)
_QUEUE_MS = names.STAGE_MS.format("queue")


def tree_of_trace(trace: Trace) -> RunTree:
    """The tree of a run; instants are seconds since the run began.

    Args:
        trace: The run's trace, read from its file.
    """
    began_us = trace.spans[0].start_us
    tree: RunTree | None = None
    made: dict[str, TreeNode] = {}
    of_engine: dict[str, list[Span]] = {}
    for span in trace.spans:
        if span.service == "engine" and span.kind != "consumer":
            of_engine.setdefault(str(span.attributes.get(names.NODE_ID)), []).append(span)
    for place, span in enumerate(trace.spans):
        if place and names.NODE_KIND not in span.attributes:
            continue
        node_id = str(span.attributes.get(names.NODE_ID, span.name))
        parent = made.get(node_id.rpartition("/")[0])
        node = made[node_id] = _node(span, node_id, parent, began_us, of_engine.get(node_id, ()))
        if tree is None:
            tree = RunTree(node)
        else:
            node.parent = parent or tree.root
            tree.add(node)
        tree.currency = tree.currency or str(span.attributes.get(names.COST_CURRENCY, ""))
        tree.account(node)
    assert tree is not None
    return tree


def _node(
    span: Span, node_id: str, parent: TreeNode | None, began_us: int, engine: Iterable[Span]
) -> TreeNode:
    tags = span.attributes
    output_tokens = int(number_of(tags, names.OUTPUT_TOKENS))
    kind = str(tags.get(names.NODE_KIND, "program"))
    node = TreeNode(
        key=node_id,
        name=node_id.rpartition("/")[2],
        kind=kind,
        parent=parent,
        started_at_s=(span.start_us - began_us) / 1e6,
        state=_state(span),
        ended_at_s=(span.end_us - began_us) / 1e6,
        prompt_tokens=int(number_of(tags, names.INPUT_TOKENS)),
        tokens=output_tokens,
        decode_s=number_of(tags, names.ITL_MEAN) * max(0, output_tokens - 1) / 1e3,
        critical=bool(tags.get(names.CRITICAL)),
        why=span.error or str(tags.get(names.CANCELLED_REASON, "")),
    )
    if names.CACHED_TOKENS in tags:
        node.cached_tokens = int(number_of(tags, names.CACHED_TOKENS))
    if kind == "generate":
        node.cost_pico = round(number_of(tags, names.COST) * PICO)
        node.stages = [_stage(one, began_us) for one in engine if _label(one) in _LABELS]
    elif kind in ("tool", "ask"):
        work_s = node.started_at_s + number_of(tags, _QUEUE_MS) / 1e3
        node.begin("queue", node.started_at_s)
        node.begin("tool", work_s)
        node.begin(None, (span.end_us - began_us) / 1e6)
    return node


def _state(span: Span) -> State:
    if names.CANCELLED_REASON in span.attributes:
        return "cancelled"
    return "failed" if span.error is not None else "ok"


def _label(span: Span) -> str:
    return span.name.removeprefix(_ENGINE)


def _stage(span: Span, began_us: int) -> Stage:
    label = cast(Label, _label(span))
    return Stage(label, (span.start_us - began_us) / 1e6, (span.end_us - began_us) / 1e6)
