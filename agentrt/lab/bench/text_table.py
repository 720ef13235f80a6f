"""Tables for the terminal, wide enough to read even without one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

_NARROWEST = 110


def text_table(
    title: str,
    names: Sequence[str],
    figures: Sequence[str],
    sections: Iterable[Iterable[Sequence[str]]],
) -> Table:
    """A table of rows in sections.

    Args:
        title: Title above.
        names: Heads of the first columns, which are never wrapped.
        figures: Heads of the other columns, aligned to the right.
        sections: Rows of each section.
    """
    table = Table(title=title)
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, justify="right")
    for rows in sections:
        for row in rows:
            table.add_row(*row)
        table.add_section()
    return table


def wide_console(least: int) -> Console:
    """A console of at least so many columns, unless a terminal is wide enough for tables."""
    console = Console()
    if not console.is_terminal or console.width < _NARROWEST:
        return Console(width=max(least, int(os.environ.get("COLUMNS", "0") or 0)))
    return console
