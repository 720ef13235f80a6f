"""The programs by which the best plan of a server is found: few, short, and unlike each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.bench.compound.model import BenchModel, small_scale
from agentrt.lab.bench.compound.plan import Round, round_of_one, widest
from agentrt.lab.workloads.trace import ProgramTrace


def short_rounds(shapes: Sequence[str], model: BenchModel) -> list[Round]:
    """A round of each shape, with all branches and turns of the run and no longer than to try it.

    Many settings are tried on each server, so a program of life size would take too long.

    Raises:
        UsageError: No program of a shape fits.
    """
    drawing = model.drawing
    scale, small = drawing.scale, small_scale(model.shape)
    short = replace(
        scale,
        context=min(scale.context, small.context),
        output=min(scale.output, small.output),
        time=min(scale.time, small.time),
    )
    return [
        round_of_one((shape, 0, 0), replace(drawing, scale=short), counts=False) for shape in shapes
    ]


def probe_of(rounds: Sequence[Round]) -> list[ProgramLine]:
    """The smallest program, the smallest with a form, and the widest one of moderate size."""
    first: dict[str, tuple[ProgramTrace, ProgramLine]] = {}
    for one in rounds:
        for program, line in zip(one.programs, one.lines("probe"), strict=True):
            first.setdefault(line["shape"], (program, {**line, "at_s": 0.0}))
    least = sorted(first.values(), key=lambda pair: _tokens(pair[0]))
    wide = max(least[: max(1, len(least) // 2)], key=lambda pair: widest(pair[0]))
    formed = [pair for pair in least if _has_form(pair[1])]
    chosen = {pair[1]["name"]: pair[1] for pair in (least[0], *formed[:1], wide)}
    return list(chosen.values())


def _has_form(line: ProgramLine) -> bool:
    return any("pattern" in node for node in line["nodes"])


def _tokens(program: ProgramTrace) -> int:
    return sum(call.output_tokens for call in program.calls())
