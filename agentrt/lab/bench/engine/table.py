"""A sweep as a table for people."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from agentrt.analysis.model_shape import ModelShape
from agentrt.lab.bench.engine.result import ArmResult, RowResult, figures
from agentrt.lab.bench.engine.variants import OURS

_NARROWEST = 110


def table_of(shape: ModelShape, results: Sequence[RowResult]) -> Table:
    """A line for each arm, peers below the engine."""
    table = Table(title=f"{shape.name}, {shape.parameters / 1e6:,.1f} M parameters")
    table.add_column("row", no_wrap=True)
    table.add_column("arm", no_wrap=True)
    for name in (
        "prefill tok/s",
        "of ceiling",
        "decode ms/step",
        "tok/s",
        "GB/s",
        "GFLOP/s",
        "of ceiling",
        "KV hit",
        "prefill, ours",
        "decode, ours",
    ):
        table.add_column(name, justify="right")
    for result in results:
        for arm in result.arms:
            table.add_row(*_cells(shape, result, arm))
        table.add_section()
    return table


def _cells(shape: ModelShape, result: RowResult, arm: ArmResult) -> tuple[str, ...]:
    found = figures(shape, result, arm)
    ours = arm.arm.engine == OURS
    return (
        result.row.name if ours else "",
        arm.arm.name,
        f"{found['prefill_tokens_s']:,.0f}",
        f"{found['prefill_share_of_ceiling']:.0%}",
        f"{found['decode_step_ms']:.2f}",
        f"{found['decode_tokens_s']:,.0f}",
        f"{found['decode_bytes_s'] / 1e9:,.1f}",
        f"{found['decode_flops_s'] / 1e9:,.0f}",
        f"{found['decode_share_of_ceiling']:.0%}",
        f"{found['kv_hit']:.0%}",
        "" if ours else _times(result.ratio(arm.arm.engine, "prefill")),
        "" if ours else _times(result.ratio(arm.arm.engine, "decode")),
    )


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"


def ceilings_line(result: RowResult) -> str:
    """What the machine allowed while a row was measured."""
    read, multiply = result.ceiling("read_bytes_s"), result.ceiling("flops_s")
    threads = int(result.ceilings[0]["threads"])
    return (
        f"ceilings at {threads} threads: reads {read / 1e9:.1f} GB/s, "
        f"multiplies {multiply / 1e9:,.0f} GFLOP/s in {result.row.dtype}"
    )


def show(shape: ModelShape, results: Sequence[RowResult]) -> None:
    """Print it, wide enough to read even where there is no terminal."""
    console = Console()
    if not console.is_terminal or console.width < _NARROWEST:
        console = Console(width=max(_NARROWEST + 40, int(os.environ.get("COLUMNS", "0") or 0)))
    console.print(table_of(shape, results))
    for result in results:
        console.print(f"{result.row.name}: {ceilings_line(result)}", highlight=False)
