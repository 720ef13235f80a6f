"""Points of the bench as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from agentrt.lab.bench.drafts.result import OFF, ON, PointPairs
from agentrt.lab.bench.text_table import text_table, wide_console

_WIDE = 150
_FIGURES = (
    *("tokens/step off", "on", "rows/token", "accepted", "rejected"),
    *("ms/token off", "on", "time, on by off"),
)


def show(results: Sequence[PointPairs]) -> None:
    """Print a line for each point."""
    by_shape = groupby(results, key=lambda one: one.point.shape)
    sections = [[_cells(one) for one in rows] for _, rows in by_shape]
    console = wide_console(_WIDE)
    console.print(text_table("drafts", ("row",), _FIGURES, sections))


def _cells(one: PointPairs) -> tuple[str, ...]:
    found = one.figures
    off, on = found[OFF], found[ON]
    return (
        one.point.name,
        f"{off['tokens_a_step']:.2f}",
        f"{on['tokens_a_step']:.2f}",
        f"{on['rows_a_token']:.2f}",
        _by_source(on["accepted"]),
        _by_source(on["rejected"]),
        f"{off['token_ms']:.3f}",
        f"{on['token_ms']:.3f}",
        f"{one.ratio:.3f}",
    )


def _by_source(tokens: Mapping[str, int]) -> str:
    return ", ".join(f"{source} {count}" for source, count in sorted(tokens.items())) or "0"
