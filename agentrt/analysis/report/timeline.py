"""Lanes of a timeline: one for a node, or one for all nodes of a call site in a large run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from agentrt.analysis.report.bars import Bar
from agentrt.analysis.stage import Label
from agentrt.base.record import record

MAX_LANES = 60
MAX_BARS_IN_LANE = 12
COLUMNS = 120

Key = Callable[[Bar], str]


@record
class Lane:
    """Bars that share a line of the timeline.

    Attributes:
        name: Name of the node, or of the call site.
        bars: Bars, in order of their start.
    """

    name: str
    bars: tuple[Bar, ...]

    @property
    def is_folded(self) -> bool:
        """Whether the lane stands for several nodes."""
        return len(self.bars) > 1

    @property
    def is_critical(self) -> bool:
        """Whether the critical path goes through one of its nodes."""
        return any(bar.critical for bar in self.bars)

    def chosen(self) -> tuple[Bar, ...]:
        """The bars worth a look: on the critical path first, then the longest, in time's order."""
        ranked = sorted(self.bars, key=lambda bar: (not bar.critical, bar.start_s - bar.end_s))
        return tuple(sorted(ranked[:MAX_BARS_IN_LANE], key=lambda bar: bar.start_s))


def lanes(bars: Sequence[Bar], most: int = MAX_LANES) -> tuple[Lane, ...]:
    """At most `most` lanes that hold all bars, in order of their start.

    Nodes of a call site below one program share a lane if there are too many of them; then nodes of
    a call site anywhere; at last the call sites with least work share one.
    """
    for key in (_own, _below_program, _anywhere):
        found = _grouped(bars, key)
        if len(found) <= most:
            return found
    by_work = sorted(found, key=lambda lane: -sum(bar.end_s - bar.start_s for bar in lane.bars))
    kept, rest = by_work[: most - 1], by_work[most - 1 :]
    others = sorted((bar for lane in rest for bar in lane.bars), key=lambda bar: bar.start_s)
    merged = Lane(f"{len(rest)} other call sites", tuple(others))
    return tuple(sorted([*kept, merged], key=lambda lane: lane.bars[0].start_s))


@record
class Column:
    """An interval of a folded lane.

    Attributes:
        label: Label with most node-seconds.
        nodes: Mean number of nodes at work, waits included.
    """

    label: Label
    nodes: float


def activity(
    bars: Sequence[Bar], start_s: float, length_s: float, columns: int = COLUMNS
) -> tuple[Column | None, ...]:
    """Work of the bars in each of `columns` equal intervals; None without any.

    Args:
        bars: Bars of the lane.
        start_s: First instant, on the clock of the bars' stages.
        length_s: Length of all intervals together, above 0.
        columns: Number of intervals.
    """
    spent: list[dict[Label, float]] = [defaultdict(float) for _ in range(columns)]
    width_s = length_s / columns
    for bar in bars:
        for stage in bar.stages:
            first = int((stage.started_at_s - start_s) / width_s)
            last = int((stage.ended_at_s - start_s) / width_s)
            for at in range(max(0, first), min(columns - 1, last) + 1):
                from_s = start_s + at * width_s
                overlap_s = min(stage.ended_at_s, from_s + width_s) - max(
                    stage.started_at_s, from_s
                )
                if overlap_s > 0.0:
                    spent[at][stage.label] += overlap_s
    return tuple(
        Column(max(one, key=lambda label: one[label]), sum(one.values()) / width_s) if one else None
        for one in spent
    )


def _own(bar: Bar) -> str:
    return bar.name


def _below_program(bar: Bar) -> str:
    program, slash, _ = bar.name.rpartition("/")
    return program + slash + bar.site


def _anywhere(bar: Bar) -> str:
    return bar.site


def _grouped(bars: Sequence[Bar], key: Key) -> tuple[Lane, ...]:
    groups: dict[str, list[Bar]] = {}
    for bar in bars:
        groups.setdefault(key(bar), []).append(bar)
    return tuple(Lane(name, tuple(group)) for name, group in groups.items())
