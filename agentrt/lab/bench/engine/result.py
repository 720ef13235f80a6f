"""The result of a sweep: medians, rates beside the roofline, ratios to peers, and the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Literal

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.record import record
from agentrt.lab.arms.arm_process import OURS, Arm
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.sample import Sample
from agentrt.lab.result_file import header, machine, short_paths

SCHEMA = "agentrt.bench.engine/1"
Phase = Literal["prefill", "decode"]
_PHASES: tuple[Phase, ...] = ("prefill", "decode")
_SPEED_VARIABLES = ("OMP_", "KMP_", "GOMP_", "MKL_", "PYTORCH_", "TRITON_")


@record
class ArmResult:
    """The samples of one arm.

    Attributes:
        arm: The arm.
        about: Description that its process gave.
        samples: One for each round, in order.
    """

    arm: Arm
    about: Mapping[str, Any]
    samples: Sequence[Sample]

    @property
    def prefill_s(self) -> float:
        """Median time to the last first token."""
        return median(sample.prefill_s for sample in self.samples)

    @property
    def step_s(self) -> float:
        """Median decode step."""
        return median(sample.step_s for sample in self.samples)

    @property
    def cached_tokens(self) -> float:
        """Median of prompt tokens that were found in the cache."""
        return median(sample.cached_tokens for sample in self.samples)


@record
class PointResult:
    """One point of a sweep, measured.

    Attributes:
        point: The point.
        arms: Results, ours first.
        probes: Samples of competing variants, by arm.
        ceilings: Rates of the machine, before and after.
    """

    point: SweepPoint
    arms: Sequence[ArmResult]
    probes: Mapping[str, Sequence[Sample]]
    ceilings: Sequence[Mapping[str, float]]

    @property
    def ours(self) -> ArmResult:
        """The result of our engine."""
        return next(result for result in self.arms if result.arm.engine == OURS)

    def ceiling(self, name: str) -> float:
        """The better of both measurements: a disturbance only lowers a rate."""
        return max(one[name] for one in self.ceilings)

    def ratio(self, peer: str, phase: Phase) -> float | None:
        """Median over rounds of the peer's best time by ours; above 1 ours is faster."""
        values = [
            ratio_of_rounds(self.ours.samples, result.samples, phase)
            for result in self.arms
            if result.arm.engine == peer
        ]
        return min(values, default=None)

    def figures(self, shape: ModelShape, arm: ArmResult) -> dict[str, float]:
        """Rates of one arm, and their share of the roofline."""
        work, flops = self.point.decode_work(shape), self.point.prefill_flops(shape)
        read, multiply = self.ceiling("read_bytes_s"), self.ceiling("flops_s")
        least_s = work.roofline_s(read_bytes_s=read, flops_s=multiply)
        return {
            "prefill_tokens_s": self.point.all_prompt_tokens / arm.prefill_s,
            "prefill_flops_s": flops / arm.prefill_s,
            "prefill_share_of_ceiling": flops / arm.prefill_s / multiply,
            "decode_step_ms": arm.step_s * 1e3,
            "decode_tokens_s": self.point.batch / arm.step_s,
            "decode_bytes_s": work.bytes / arm.step_s,
            "decode_flops_s": work.flops / arm.step_s,
            "decode_share_of_ceiling": least_s / arm.step_s,
            "kv_hit": arm.cached_tokens / self.point.all_prompt_tokens,
        }


def ratio_of_rounds(ours: Sequence[Sample], peer: Sequence[Sample], phase: Phase) -> float:
    """Median over rounds of the peer's time by ours."""
    key = "prefill_s" if phase == "prefill" else "step_s"
    return median(
        float(getattr(theirs, key)) / float(getattr(mine, key))
        for mine, theirs in zip(ours, peer, strict=True)
    )


def to_json(shape: ModelShape, results: Sequence[PointResult]) -> dict[str, Any]:
    """The file of a sweep, with every sample."""
    return {
        **header(SCHEMA),
        "machine": machine(),
        "shape": asdict(shape) | {"parameters": shape.parameters},
        "rows": [_point_json(shape, result) for result in results],
    }


def _point_json(shape: ModelShape, result: PointResult) -> dict[str, Any]:
    peers = dict.fromkeys(arm.arm.engine for arm in result.arms if arm.arm.engine != OURS)
    return {
        **asdict(result.point),
        "ceilings": [dict(one) for one in result.ceilings],
        "ratios": {peer: {phase: result.ratio(peer, phase) for phase in _PHASES} for peer in peers},
        "arms": [
            {
                "name": one.arm.name,
                "settings": short_paths(one.arm.settings),
                "environment": _speed_variables(one.arm.env),
                "about": dict(one.about),
                "figures": result.figures(shape, one),
                "samples": [asdict(sample) for sample in one.samples],
            }
            for one in result.arms
        ],
        "probes": {
            name: [asdict(sample) for sample in samples] for name, samples in result.probes.items()
        },
    }


def _speed_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide speed; a whole environment may hold secrets."""
    return {name: env[name] for name in sorted(env) if name.startswith(_SPEED_VARIABLES)}
