"""Gantt chart of a run, in plain text."""

from __future__ import annotations

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import critical_path
from agentrt.analysis.replay import saving_s
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.analysis.stage import Label, Stage
from agentrt.analysis.stages import stages
from agentrt.base.record import record

MARKS: dict[Label, str] = {
    "admission": ":",
    "cache": "m",
    "queue": ".",
    "kv_reload": "r",
    "prefill": "=",
    "decode": "#",
    "constraint": "c",
    "tool": "t",
    "orchestration": "-",
    "network": "~",
    "unattributed": "?",
}

_OTHER_COLUMNS = 26  # characters of a line beside the name and the bar


@record
class Bar:
    """Bar of one node.

    Attributes:
        name: Id below the program.
        start_s: From the run's start to its last input.
        end_s: From the run's start to its end.
        stages: Stages of the node, in order.
        critical: Whether the critical path goes through it.
        saving_s: Time that the run would save if the node took none.
        outcome: Kind of its end; "" while it is open.
    """

    name: str
    start_s: float
    end_s: float
    stages: tuple[Stage, ...]
    critical: bool
    saving_s: float
    outcome: str


def bars(record: RunRecord) -> tuple[Bar, ...]:
    """The bars of all nodes with work of their own, in order of their start."""
    causes = Causes(record)
    on_path = {step.node_id for step in critical_path(record, causes)}
    made = [_bar(record, node, causes, node.node_id in on_path) for node in record.leaves()]
    return tuple(sorted(made, key=lambda bar: bar.start_s))


def gantt(record: RunRecord, width: int = 100) -> str:
    """The bars as lines of at most `width` characters (at least 60), and a legend below.

    A run without work gives no lines at all.
    """
    found = bars(record)
    if not found or record.compound_s <= 0.0:
        return ""
    name_width = min(max(60, width) // 3, max(len(bar.name) for bar in found))
    columns = max(60, width) - name_width - _OTHER_COLUMNS
    lines = [_line(bar, record, name_width, columns) for bar in found]
    used = {stage.label for bar in found for stage in bar.stages}
    legend = "  ".join(f"{mark} {label}" for label, mark in MARKS.items() if label in used)
    return "\n".join([*lines, f"{legend}  * critical path, saves: if it took no time"])


def _bar(record: RunRecord, node: NodeRecord, causes: Causes, critical: bool) -> Bar:
    _, _, name = node.node_id.partition("/")
    return Bar(
        name or node.node_id,
        causes.ready_at_s(node) - record.started_at_s,
        record.end_of(node) - record.started_at_s,
        stages(record, node, causes),
        critical,
        max(0.0, saving_s(record, node.node_id, causes)) if critical else 0.0,
        node.outcome or "",
    )


def _line(bar: Bar, record: RunRecord, name_width: int, columns: int) -> str:
    per_s = columns / record.compound_s
    cells = [" "] * columns
    for stage in bar.stages:
        first = int((stage.started_at_s - record.started_at_s) * per_s)
        last = int((stage.ended_at_s - record.started_at_s) * per_s)
        for column in range(min(first, columns - 1), min(max(last, first + 1), columns)):
            cells[column] = MARKS[stage.label]
    mark = "*" if bar.critical else " "
    length_ms = (bar.end_s - bar.start_s) * 1e3
    tail = f"saves {bar.saving_s * 1e3:.0f}" if bar.critical else ""
    if bar.outcome not in {"ok", ""}:
        tail = bar.outcome
    name = bar.name[-name_width:]
    return f"{name:<{name_width}} {mark}|{''.join(cells)}|{length_ms:>7.0f} ms {tail}".rstrip()
