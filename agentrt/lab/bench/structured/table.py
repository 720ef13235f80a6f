"""The figures as tables for people."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_NARROWEST = 110
_WIDE = 190


def show(results: Sequence[Mapping[str, Any]]) -> None:
    """Print coverage, times, forced tokens and closings of every library and vocabulary."""
    console = Console()
    if not console.is_terminal or console.width < _NARROWEST:
        console = Console(width=max(_WIDE, int(os.environ.get("COLUMNS", "0") or 0)))
    console.print(_coverage(results))
    console.print(_times(results))
    for result in results:
        closing = result["figures"]["closing"]
        for budget, row in closing["by_budget"].items():
            console.print(
                f"{result['vocabulary']}, closing within {budget}: {row['valid']} of "
                f"{row['outputs']} valid, {row['steered']} steered",
                highlight=False,
            )


def _coverage(results: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="what compiles, and what is let through")
    for name in ("vocabulary", "library", "cases"):
        table.add_column(name, no_wrap=True)
    for name in ("compiled", "share", "failed", "right", "false accepts", "valid refused"):
        table.add_column(name, justify="right")
    for result in results:
        for group, row in result["figures"]["coverage"].items():
            refused = row["valid_refused"]
            excused = sum(refused.values()) - refused.get("no excuse", 0)
            table.add_row(
                result["vocabulary"],
                result["library"],
                group,
                f"{row['compiled']} / {row['cases']}",
                f"{row['share']:.1%}",
                str(row["failed"]),
                f"{row['right']} / {row['texts']}",
                f"{row['false_accepts']} / {row['invalid_texts']}",
                f"{refused.get('no excuse', 0)}, {excused} excused",
            )
        table.add_section()
    return table


def _times(results: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="times by the wall, and by the processors' clocks")
    for name in ("vocabulary", "library", "kind"):
        table.add_column(name, no_wrap=True)
    for name in (
        "compile ms p50",
        "p99",
        "max",
        "cpu p50",
        "p99",
        "max",
        "mask us p50",
        "p99",
        "cpu p50",
        "p99",
        "64 rows us p50",
        "alone",
        "forced",
    ):
        table.add_column(name, justify="right")
    for result in results:
        found = result["figures"]
        for kind, compiled in found["compile_ms"].items():
            masks, rows = found["mask_us"][kind], found["rows_us"].get(kind, {})
            table.add_row(
                result["vocabulary"],
                result["library"],
                kind,
                *(
                    _figure(compiled[c], name, 2)
                    for c in compiled
                    for name in ("p50", "p99", "max")
                ),
                *(_figure(masks[clock], name) for clock in masks for name in ("p50", "p99")),
                *(_figure(rows.get(how, {}), "p50") for how in ("pool", "alone")),
                f"{found['forced'][kind]['share']:.0%}" if found["forced"][kind]["tokens"] else "",
            )
        table.add_section()
    return table


def _figure(of: Mapping[str, float], name: str, digits: int = 1) -> str:
    return f"{of[name]:,.{digits}f}" if name in of else ""
