"""A run and its nodes as plain data: one JSON object, or CSV with a row a node."""

from __future__ import annotations

import csv
import io
from typing import Any

from agentrt.telemetry.figure_objects import node_object, run_object
from agentrt.telemetry.node_figures import node_figures, run_figures
from agentrt.telemetry.span import Trace
from agentrt.telemetry.waits import LABELS, TraceNodes

SCHEMA = "agentrt.trace/1"


def trace_object(trace: Trace) -> dict[str, Any]:
    """The run of a trace as data, `agentrt.trace/1`; times in ms, money as exact decimal text."""
    nodes = TraceNodes(trace)
    return {
        "schema": SCHEMA,
        **run_object(run_figures(trace.trace_id, nodes)),
        "nodes": [node_object(node_figures(nodes, span)) for span in nodes.nodes.values()],
    }


def trace_csv(trace: Trace) -> str:
    """The nodes of a run, one a row below a row of names; times in ms."""
    rows = [_row(node) for node in trace_object(trace)["nodes"]]
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(node: dict[str, Any]) -> dict[str, Any]:
    waits = {_wait_column(label): node["wait_ms"].get(label, 0.0) for label in LABELS}
    plain = {name: value for name, value in node.items() if name != "wait_ms"}
    return {**plain, **waits, "deps": " ".join(node["deps"])}


def _wait_column(label: str) -> str:
    return f"wait_{label.replace(' ', '_')}_ms"


_COLUMNS = (
    *("id", "name", "kind", "site", "model", "start_ms", "took_ms"),
    *("queue_ms", "grammar_ms", "prefill_ms", "decode_ms", "tool_ms"),
    *("input_tokens", "cached_tokens", "output_tokens", "cost", "currency"),
    *("critical", "deps", "error"),
    *(_wait_column(label) for label in LABELS),
)
