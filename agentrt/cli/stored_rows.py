"""Rows of the estimate store by engine, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from textwrap import wrap

from agentrt.scheduler.estimates.row import EstimateRow

StoredRows = Sequence[tuple[str, EstimateRow]]
"""Rows, each with the name of its engines."""


_GAP = "  "
_LEAST_FIRST, _LEAST_LAST = 14, 16
"""Characters of the first and of the last column below which these are not folded."""


def by_engines(
    stored: Iterable[tuple[str, EstimateRow]],
) -> list[tuple[str, list[EstimateRow]]]:
    """The rows of each set of engines, by name."""
    found: dict[str, list[EstimateRow]] = {}
    for engines, row in stored:
        found.setdefault(engines, []).append(row)
    return sorted(found.items())


def title(template: str, engines: str, width: int | None = None) -> list[str]:
    """Program and engines of a table: one line, or more if that is wider than `width`."""
    line = f"{template}   on {engines}"
    if width is None or len(line) <= width:
        return [line]
    return [*wrap(template, width), *wrap(f"on {engines}", width, initial_indent=_GAP)]


def table(rows: Sequence[tuple[str, ...]], width: int | None = None) -> list[str]:
    """Rows as lines with columns of equal width, the first row as their head.

    If that is wider than `width`, the text of the first and the last column is folded; where the
    last one finds no room, it goes below its row, behind the name of the column. The columns
    between are never cut.

    Args:
        rows: Cells, as many in each row.
        width: Characters of a line; None sets no limit.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    between = sum(widths[1:-1]) + len(_GAP) * len(widths)  # the indent counts as a gap
    if width is None or between + widths[0] + widths[-1] <= width:
        return [line for row in rows for line in _lines(row, widths)]
    room = width - between
    if room - widths[0] >= min(widths[-1], _LEAST_LAST):
        widths[-1] = room - widths[0]
    elif room >= _LEAST_FIRST + min(widths[-1], _LEAST_LAST):
        widths[-1] = min(widths[-1], room - _LEAST_FIRST)
        widths[0] = room - widths[-1]
    else:
        return _with_last_below(rows, widths[:-1], width)
    return [line for row in rows for line in _lines(row, widths)]


def _with_last_below(rows: Sequence[tuple[str, ...]], widths: list[int], width: int) -> list[str]:
    widths[0] = min(widths[0], max(8, width - sum(widths[1:]) - len(_GAP) * len(widths)))
    head, *others = rows
    lines = _lines(head[:-1], widths)
    for row in others:
        lines += _lines(row[:-1], widths)
        if row[-1]:
            lines += wrap(
                f"{head[-1]}: {row[-1]}",
                max(8, width),
                initial_indent=_GAP * 2,
                subsequent_indent=_GAP * 3,
            )
    return lines


def _lines(row: tuple[str, ...], widths: Sequence[int]) -> list[str]:
    cells = [
        wrap(cell, room) if len(cell) > room else [cell]
        for cell, room in zip(row, widths, strict=True)
    ]
    return [
        (
            _GAP + _GAP.join(part.ljust(room) for part, room in zip(parts, widths, strict=True))
        ).rstrip()
        for parts in zip_longest(*cells, fillvalue="")
    ]
