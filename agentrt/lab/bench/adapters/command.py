"""`agentrt bench adapters`: measure, print the table, write the file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import get_args

from rich.table import Table

from agentrt.analysis.model_shape import DTYPE_BYTES
from agentrt.base.config import WeightChoice
from agentrt.lab.bench.adapters.measure import FIRST_TOKEN, measure
from agentrt.lab.bench.adapters.result import NONE, ONE, SEVERAL, AdaptersPoint, to_json
from agentrt.lab.bench.flags import AdaptersFlags
from agentrt.lab.bench.paired_steps import median_ms
from agentrt.lab.bench.text_table import text_table, wide_console
from agentrt.lab.checkpoints.shapes import SHAPES, shape_named
from agentrt.lab.flags import check_known, names, require
from agentrt.lab.result_file import write_json

_WIDE = 110


def check(flags: AdaptersFlags) -> None:
    """Check the flags before weights are written.

    Raises:
        UsageError: A flag is out of range.
    """
    dense = tuple(name for name, shape in SHAPES.items() if shape.experts == 1)
    check_known("--shape", (flags.shape,), dense)
    check_known("--dtype", (flags.dtype,), tuple(DTYPE_BYTES))
    check_known("--weights", names(flags.weights), get_args(WeightChoice))
    shape = shape_named(flags.shape)
    most = shape.vocabulary - FIRST_TOKEN
    require(
        flags.batch <= most,
        f"--batch {flags.batch} is more than the {most} tokens of {shape.name} to begin with",
        "Lower --batch",
    )
    require(
        flags.prompt < shape.window_tokens,
        f"--prompt {flags.prompt} leaves no token of the {shape.window_tokens} of {shape.name}",
        "Lower --prompt",
    )


def run_adapters_bench(flags: AdaptersFlags) -> None:
    """Measure and print the table; the file is written anew after each point.

    Raises:
        UsageError: A flag is out of range.
    """
    check(flags)
    shape = shape_named(flags.shape)
    results: list[AdaptersPoint] = []
    with tempfile.TemporaryDirectory(prefix="agentrt-adapters-") as folder:
        for result in measure(shape, flags, Path(folder)):
            results.append(result)
            write_json(flags.json_path, to_json(shape, results))
    wide_console(_WIDE).print(table_of(f"{shape.name}, rank {flags.rank}", results))


def table_of(title: str, results: list[AdaptersPoint]) -> Table:
    """A line for each arm; what it takes by the arm above it, step by step."""
    sections = []
    for result in results:
        rows: list[tuple[str, str, str, str]] = []
        for arm, above in ((NONE, ""), (ONE, NONE), (SEVERAL, ONE)):
            cost = ""
            if above:
                lower, middle, upper = result.costs(arm, above)
                cost = f"{middle:.2f}x ({lower:.2f} to {upper:.2f})"
            label = result.weights if arm == NONE else ""
            rows.append((label, arm, f"{median_ms(result.samples[arm]):.2f}", cost))
        sections.append(rows)
    first = results[0]
    return text_table(
        f"{title}, B={first.batch}, {first.adapters} adapters, {first.threads} threads",
        ("weights", "rows with"),
        ("decode ms/step", "by the arm above (quartiles)"),
        sections,
    )
