"""A sweep as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from agentrt.analysis.model_shape import ModelShape
from agentrt.lab.arms.arm_process import OURS
from agentrt.lab.bench.engine.result import ArmResult, PointResult
from agentrt.lab.bench.text_table import text_table, wide_console

_WIDE = 150
_FIGURES = (
    *("prefill tok/s", "of ceiling", "decode ms/step", "tok/s", "GB/s", "GFLOP/s", "of ceiling"),
    *("KV hit", "prefill, ours", "decode, ours"),
)


def table_of(shape: ModelShape, results: Sequence[PointResult]) -> Table:
    """A line for each arm, peers below the engine."""
    title = f"{shape.name}, {shape.parameters / 1e6:,.1f} M parameters"
    sections = ([_cells(shape, result, arm) for arm in result.arms] for result in results)
    return text_table(title, ("row", "arm"), _FIGURES, sections)


def _cells(shape: ModelShape, result: PointResult, arm: ArmResult) -> tuple[str, ...]:
    found = result.figures(shape, arm)
    ours = arm.arm.engine == OURS
    return (
        result.point.name if ours else "",
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


def ceilings_line(result: PointResult) -> str:
    """Rates of the machine while a point was measured."""
    read, multiply = result.ceiling("read_bytes_s"), result.ceiling("flops_s")
    threads = int(result.ceilings[0]["threads"])
    return (
        f"ceilings at {threads} threads: reads {read / 1e9:.1f} GB/s, "
        f"multiplies {multiply / 1e9:,.0f} GFLOP/s in {result.point.dtype}"
    )


def show(shape: ModelShape, results: Sequence[PointResult]) -> None:
    """Print the table and the ceilings of each point."""
    console = wide_console(_WIDE)
    console.print(table_of(shape, results))
    for result in results:
        console.print(f"{result.point.name}: {ceilings_line(result)}", highlight=False)
