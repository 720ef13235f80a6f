"""The figures of structured output as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from agentrt.lab.bench.text_table import text_table, wide_console

Results = Sequence[Mapping[str, Any]]
_WIDE = 190


def show(results: Results) -> None:
    """Print coverage, times, forced tokens and closings of every library and vocabulary."""
    console = wide_console(_WIDE)
    console.print(_coverage(results))
    console.print(_times(results))
    for result in results:
        for budget, row in result["figures"]["closing"]["by_budget"].items():
            console.print(
                f"{result['vocabulary']}, closing within {budget}: {row['valid']} of "
                f"{row['outputs']} valid, {row['steered']} steered",
                highlight=False,
            )


def _coverage(results: Results) -> Table:
    def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
        for group, row in result["figures"]["coverage"].items():
            faults = row["valid_refused"].get("no excuse", 0)
            yield (
                result["vocabulary"],
                result["library"],
                group,
                f"{row['compiled']} / {row['cases']}",
                f"{row['share']:.1%}",
                str(row["failed"]),
                f"{row['right']} / {row['texts']}",
                f"{row['false_accepts']} / {row['invalid_texts']}",
                f"{faults}, {sum(row['valid_refused'].values()) - faults} excused",
            )

    return text_table(
        "what compiles, and what is let through",
        ("vocabulary", "library", "cases"),
        ("compiled", "share", "failed", "right", "false accepts", "valid refused"),
        map(rows, results),
    )


def _times(results: Results) -> Table:
    def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
        found = result["figures"]
        for kind, compiled in found["compile_ms"].items():
            masks, rows_us = found["mask_us"][kind], found["rows_us"].get(kind, {})
            forced = found["forced"][kind]
            yield (
                result["vocabulary"],
                result["library"],
                kind,
                *(_shown(one, at, 2) for one in compiled.values() for at in ("p50", "p99", "max")),
                *(_shown(one, at) for one in masks.values() for at in ("p50", "p99")),
                *(_shown(rows_us.get(how, {}), "p50") for how in ("pool", "alone")),
                f"{forced['share']:.0%}" if forced["tokens"] else "",
            )

    return text_table(
        "times by the wall, and by the processors' clocks",
        ("vocabulary", "library", "kind"),
        (
            *("compile ms p50", "p99", "max", "cpu p50", "p99", "max"),
            *("mask us p50", "p99", "cpu p50", "p99", "64 rows us p50", "alone", "forced"),
        ),
        map(rows, results),
    )


def _shown(of: Mapping[str, float], name: str, digits: int = 1) -> str:
    return f"{of[name]:,.{digits}f}" if name in of else ""
