"""The file of a load study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentrt.lab.result_file import header
from agentrt.lab.sim.load import FIGURES, LoadCurves
from agentrt.lab.sim.load_targets import load_targets

SCHEMA = "agentrt.sim.load/1"


def to_json(found: LoadCurves, about: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the file, with the latency and slowdown of every program."""
    return {
        **header(SCHEMA),
        "about": dict(about),
        "kv_tokens": found.kv_tokens,
        "rate": found.rate,
        "tried": [asdict(one) for one in found.tried],
        "targets": [
            {"what": one.what, **asdict(one.found), "most": one.most, "met": one.is_met}
            for one in load_targets(found)
        ],
        "arms": {name: _arm_json(found, name) for name in found.points},
    }


def _arm_json(found: LoadCurves, arm: str) -> dict[str, Any]:
    return {
        "capacity": asdict(found.capacity(arm)),
        "curve": [
            {
                "rate": rate,
                **{name: asdict(found.at_rate(arm, name, rate)) for name in FIGURES},
                "draws": [
                    {
                        **point.figures(),
                        "draw": point.seed,
                        "mean_of_programs": point.sums,
                        "latency_s": point.latency_s.round(4).tolist(),
                        "slowdown": point.slowdown.round(4).tolist(),
                    }
                    for point in found.points[arm][rate]
                ],
            }
            for rate in found.rates
        ],
    }
