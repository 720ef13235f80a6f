"""A run's latency in one line, for people."""

from __future__ import annotations

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import critical_path
from agentrt.analysis.latency_split import split
from agentrt.analysis.parallelism import parallelism
from agentrt.analysis.rounding import quanta, shared_quanta
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.saved_work import saved_work
from agentrt.analysis.usage import usage


def latency_line(record: RunRecord, trace: str | None = "") -> str:
    """Latency line: `compound 2.31 s = queue 0.04 + prefill 0.31 + decode 1.96 | parallelism 1.9x`.

    The printed numbers add up; parts that round to zero are left out, and so is the parallelism of
    a run without work. Runs under a second are in ms.

    Args:
        record: A finished run.
        trace: Location of its trace: a file or an address; "" if it is unknown, None if the run
            has no trace.
    """
    in_seconds = (100, "s", 2, 100)
    in_ms = (10_000, "ms", 1, 10)
    per_second, unit, decimals, scale = in_seconds if record.compound_s >= 1.0 else in_ms
    causes = Causes(record)
    total = quanta(record.compound_s, per_second)
    parts = split(record, critical_path(record, causes), causes).parts()
    shown = [
        f"{label} {units / scale:.{decimals}f}"
        for label, units in shared_quanta(parts, total, per_second).items()
        if units
    ]
    line = f"compound {total / scale:.{decimals}f} {unit}"
    if shown:
        line += " = " + " + ".join(shown)
    if (at_once := parallelism(record, causes)) >= 0.05:
        line += f" | parallelism {at_once:.1f}x"
    if text := saved_work(record).text():
        line += f" | {text}"
    if money := usage(record).money():
        line += f" | cost {money}"
    return line if trace is None else f"{line} | {trace_line(record.trace_id, trace)}"


def trace_line(trace_id: str, trace: str = "") -> str:
    """Trace line, such as `trace 1bf3296 -> traces/runs/x.json`; the only line of a run not begun.

    Args:
        trace_id: Trace of the run.
        trace: Location of its trace: a file or an address.
    """
    line = f"trace {trace_id[:7]}"
    return f"{line} -> {trace}" if trace else line
