"""Points of the bench as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from agentrt.lab.bench.drafts.result import OFF, ON, PointPairs
from agentrt.lab.bench.text_table import text_table, wide_console

_WIDE = 190
_FIGURES = (
    *("tokens/step off", "on", "rows/token", "accepted", "rejected"),
    *("ms/token off", "on", "time, on by off", "CPU, on by off"),
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
        _parts(off),
        _parts(on),
        f"{one.ratio:.3f}",
        f"{one.cpu_ratio:.3f}",
    )


def _parts(found: Mapping[str, Any]) -> str:
    """The median, and the means in steps with a prompt, in other steps, and between steps."""
    parts = (f"{found[name]:.3f}" for name in ("prefill_ms", "decode_ms", "other_ms"))
    return f"{found['token_ms']:.3f} ({' + '.join(parts)})"


def _by_source(tokens: Mapping[str, int]) -> str:
    return ", ".join(f"{source} {count}" for source, count in sorted(tokens.items())) or "0"
