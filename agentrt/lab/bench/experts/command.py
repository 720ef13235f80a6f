"""`agentrt bench experts`: measure, print the table, write the file."""

from __future__ import annotations

from typing import get_args

from rich.table import Table

from agentrt.analysis.model_shape import DTYPE_BYTES
from agentrt.base.config import WeightChoice
from agentrt.base.expert_memory import expert_memory
from agentrt.lab.bench.experts.measure import OTHERS, OURS, ExpertArms, measure
from agentrt.lab.bench.experts.result import ExpertsPoint, to_json
from agentrt.lab.bench.flags import ExpertsFlags
from agentrt.lab.bench.paired_steps import median_ms
from agentrt.lab.bench.text_table import text_table, wide_console
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import SHAPES, shape_named
from agentrt.lab.flags import check_known, names, require
from agentrt.lab.result_file import write_json

_WIDE = 110


def check(flags: ExpertsFlags) -> None:
    """Check the flags before weights are written.

    Raises:
        UsageError: A flag is out of range.
    """
    with_experts = tuple(name for name, shape in SHAPES.items() if shape.experts > 1)
    check_known("--shape", (flags.shape,), with_experts)
    check_known("--dtype", (flags.dtype,), tuple(DTYPE_BYTES))
    check_known("--weights", names(flags.weights), get_args(WeightChoice))
    for memory in names(flags.memory):
        expert_memory(memory, "--memory {!r}")
    if others := tuple(one for one in names(flags.others) if one):
        check_known("--others", others, OTHERS)
    window = shape_named(flags.shape).window_tokens
    require(
        flags.prompt + flags.new <= window,
        f"{flags.prompt} + {flags.new} tokens do not fit the {window} of {flags.shape}",
        "Lower --prompt or --new",
    )


def run_experts_bench(flags: ExpertsFlags) -> None:
    """Measure and print the table; the file is written anew after each point.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: Arms did unlike work.
    """
    check(flags)
    shape = shape_named(flags.shape)
    arms = ExpertArms.open(checkpoint(shape), flags)
    results: list[ExpertsPoint] = []
    for result in measure(arms, shape, flags):
        results.append(result)
        write_json(flags.json_path, to_json(shape, results))
    wide_console(_WIDE).print(table_of(shape.name, results))


def table_of(shape: str, results: list[ExpertsPoint]) -> Table:
    """A line for each arm; ratios are medians over rounds, with the least and the most."""
    sections: list[list[tuple[str, ...]]] = []
    for result in results:
        rows: list[tuple[str, ...]] = []
        for arm in result.samples:
            ratios = result.ratios(arm)
            rows.append(
                (
                    f"B={result.batch}" if not rows else "",
                    arm,
                    f"{median_ms(result.samples[arm]):.2f}",
                    f"{ratios.middle:.2f}x ({ratios.least:.2f} to {ratios.most:.2f})"
                    if arm.startswith(OURS)
                    else "",
                )
            )
        sections.append(rows)
    figures = ("decode ms/step", f"quicker than {results[0].peer}")
    return text_table(f"{shape}, {results[0].threads} threads", ("batch", "arm"), figures, sections)
