"""A run as one JSON object, `agentrt.run/1`: the output of `agentrt run --json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import critical_path
from agentrt.analysis.latency_split import split
from agentrt.analysis.rounding import quanta, shared_quanta
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.saved_work import saved_work
from agentrt.analysis.usage import usage
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId

SCHEMA = "agentrt.run/1"
_PER_SECOND = 1_000_000  # latencies are in ms with three decimals


def summary(
    record: RunRecord,
    output: Any = None,
    *,
    trace_file: Path | str | None = None,
    trace_url: str | None = None,
    error: ErrorRecord | None = None,
) -> dict[str, Any]:
    """The object of a finished run.

    `split_ms`, and the `ms` of `critical_path`, each sum to `compound_ms` to the last digit.

    Args:
        record: The run.
        output: Result as plain JSON data; None if the run failed.
        trace_file: File of its trace.
        trace_url: Address of its trace.
        error: Error, if the run itself could not report it.
    """
    error = error or (record.finished.error if record.finished else None)
    return {
        "schema": SCHEMA,
        "run_id": record.run_id,
        "trace_id": record.trace_id,
        "program": record.started.program if record.started else "",
        "ok": record.outcome == "ok" and error is None,
        "output": output,
        "latency": _latency(record),
        "usage": usage(record).as_dict(),
        "spared": saved_work(record).as_dict(),
        "trace": {"file": str(trace_file) if trace_file else None, "url": trace_url},
        "error": error_object(error) if error else None,
    }


def error_object(error: ErrorRecord) -> dict[str, str]:
    """An error in the form of the object."""
    return {name: getattr(error, name) for name in ("type", "message", "where", "hint")}


def _latency(record: RunRecord) -> dict[str, Any]:
    causes = Causes(record)
    path = critical_path(record, causes)
    compound = quanta(record.compound_s, _PER_SECOND)
    parts = split(record, path, causes).parts()
    on_path: dict[NodeId, float] = {}
    for step in path:
        on_path[step.node_id] = on_path.get(step.node_id, 0.0) + step.length_s
    lengths = shared_quanta(on_path, compound, _PER_SECOND)
    return {
        "compound_ms": _ms(compound),
        "critical_path": [
            {"node": node_id, "kind": _kind(record, node_id), "ms": _ms(units)}
            for node_id, units in lengths.items()
        ],
        "split_ms": {
            label: _ms(units)
            for label, units in shared_quanta(parts, compound, _PER_SECOND).items()
        },
    }


def _kind(record: RunRecord, node_id: NodeId) -> str:
    node = record.nodes.get(node_id)
    return node.kind if node else "program"


def _ms(units: int) -> float:
    return units / 1000
