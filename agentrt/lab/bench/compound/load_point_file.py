"""An operating point in the file of a load, so that a later part need not search it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.load_draw import load_draws
from agentrt.lab.bench.compound.load_point import LoadPoint, OpenLoad
from agentrt.lab.bench.compound.plan import ProgramDraw
from agentrt.lab.equal_facts import check_equal
from agentrt.lab.operating_point import OperatingPoint, RateProbe
from agentrt.scheduler.estimates.step_model import StepTime

Json = dict[str, Any]


def point_to_json(load: OpenLoad, found: LoadPoint) -> Json:
    """The point, without the programs, which are drawn again."""
    return {
        "asked": asked_of(load),
        "longest": found.longest,
        "alone": [asdict(one) for one in found.alone.values()],
        "point": asdict(found.point),
        "lasts_s": [[asdict(probe), lasts_s] for probe, lasts_s in found.lasts_s.items()],
        "step": asdict(found.step),
    }


def asked_of(load: OpenLoad) -> Json:
    """The load as asked for, as JSON has it."""
    return {**asdict(load), "factors": list(load.factors)}


def point_from_json(
    load: OpenLoad, drawing: ProgramDraw, told: Mapping[str, Any], name: str
) -> LoadPoint:
    """The point of an earlier part.

    Args:
        load: The load as asked for now.
        drawing: How programs are drawn.
        told: The point in the file.
        name: Name of the file, for the error.

    Raises:
        UsageError: The file has the point of another load.
    """
    check_equal(told["asked"], asked_of(load), name)
    probes = {key: tuple(map(_probe, told["point"][key])) for key in ("found", "tried")}
    ample = told["point"]["ample"]
    point = OperatingPoint(
        told["point"]["kv_tokens"],
        probes["found"],
        probes["tried"],
        None if ample is None else _probe(ample),
    )
    return LoadPoint(
        load_draws(load.draws, load.programs, drawing, load.tenants, told["longest"]),
        {one["name"]: PlayedProgram(**one) for one in told["alone"]},
        point,
        {_probe(probe): lasts_s for probe, lasts_s in told["lasts_s"]},
        StepTime(**told["step"]),
        told["longest"],
    )


def _probe(told: Mapping[str, Any]) -> RateProbe:
    return RateProbe(**told)
