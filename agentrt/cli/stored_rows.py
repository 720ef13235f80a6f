"""Rows of the estimate store by engine, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentrt.scheduler.estimates.row import EstimateRow

StoredRows = Sequence[tuple[str, EstimateRow]]
"""Rows, each with the name of its engines."""


def by_engines(
    stored: Iterable[tuple[str, EstimateRow]],
) -> list[tuple[str, list[EstimateRow]]]:
    """The rows of each set of engines, by name."""
    found: dict[str, list[EstimateRow]] = {}
    for engines, row in stored:
        found.setdefault(engines, []).append(row)
    return sorted(found.items())


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
