"""What a sweep found: medians, rates against ceilings, ratios to peers, and all of it as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.analysis.model_work import decode_work, prefill_flops
from agentrt.base.cpu_cores import cores
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.sample import Sample
from agentrt.lab.bench.engine.variants import OURS, Arm

SCHEMA = "agentrt.bench.engine/1"


@dataclass(frozen=True, slots=True)
class ArmResult:
    """The samples of one arm.

    Attributes:
        arm: Which.
        about: What its process says of itself.
        samples: One a round, in the order of rounds.
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
        """Median of prompt tokens that were not computed."""
        return median(sample.cached_tokens for sample in self.samples)


@dataclass(frozen=True, slots=True)
class RowResult:
    """One row of a sweep, measured.

    Attributes:
        row: Which.
        arms: Ours first.
        probes: Samples of the variants that competed, by arm.
        ceilings: Of the machine, before and after.
    """

    row: SweepPoint
    arms: Sequence[ArmResult]
    probes: Mapping[str, Sequence[Sample]]
    ceilings: Sequence[Mapping[str, float]]

    @property
    def ours(self) -> ArmResult:
        """The engine's arm."""
        return next(result for result in self.arms if result.arm.engine == OURS)

    def ceiling(self, name: str) -> float:
        """The better of both measurements: what disturbs one only lowers it."""
        return max(one[name] for one in self.ceilings)

    def ratio(self, peer: str, of: str) -> float | None:
        """Median over rounds of the peer's best time by ours; above 1 we are faster."""
        values = [
            ratio_of_rounds(self.ours.samples, result.samples, of)
            for result in self.arms
            if result.arm.engine == peer
        ]
        return min(values, default=None)

    def best(self, peer: str, of: str) -> ArmResult | None:
        """The fastest arm of a peer."""
        mine = [result for result in self.arms if result.arm.engine == peer]
        key = "prefill_s" if of == "prefill" else "step_s"
        return min(mine, key=lambda result: float(getattr(result, key)), default=None)


def ratio_of_rounds(ours: Sequence[Sample], peer: Sequence[Sample], of: str) -> float:
    """Median over rounds of the peer's time by ours, "prefill" or "decode"."""
    key = "prefill_s" if of == "prefill" else "step_s"
    return median(
        float(getattr(theirs, key)) / float(getattr(mine, key))
        for mine, theirs in zip(ours, peer, strict=True)
    )


def figures(shape: ModelShape, result: RowResult, arm: ArmResult) -> dict[str, float]:
    """Rates of one arm, and their share of what the machine allows."""
    row = result.row
    work = decode_work(
        shape,
        row.dtype,
        batch=row.batch,
        history_tokens=row.prompt_tokens + row.new_tokens / 2,
        shared_tokens=row.shared_tokens,
    )
    shared = row.shared_tokens
    flops = prefill_flops(shape, shared) if shared else 0.0
    flops += row.batch * prefill_flops(shape, row.prompt_tokens, shared)
    least_s = work.roofline_s(
        read_bytes_s=result.ceiling("read_bytes_s"), flops_s=result.ceiling("flops_s")
    )
    return {
        "prefill_tokens_s": row.all_prompt_tokens / arm.prefill_s,
        "prefill_flops_s": flops / arm.prefill_s,
        "prefill_share_of_ceiling": flops / arm.prefill_s / result.ceiling("flops_s"),
        "decode_step_ms": arm.step_s * 1e3,
        "decode_tokens_s": row.batch / arm.step_s,
        "decode_bytes_s": work.bytes / arm.step_s,
        "decode_flops_s": work.flops / arm.step_s,
        "decode_share_of_ceiling": least_s / arm.step_s,
        "kv_hit": arm.cached_tokens / row.all_prompt_tokens,
    }


def to_json(
    shape: ModelShape, results: Sequence[RowResult], command: Sequence[str]
) -> dict[str, Any]:
    """The whole run, raw samples included."""
    return {
        "schema": SCHEMA,
        "command": list(command),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "shape": asdict(shape) | {"parameters": shape.parameters},
        "rows": [_row_json(shape, result) for result in results],
    }


def _row_json(shape: ModelShape, result: RowResult) -> dict[str, Any]:
    peers = dict.fromkeys(arm.arm.engine for arm in result.arms if arm.arm.engine != OURS)
    return {
        **asdict(result.row),
        "ceilings": [dict(one) for one in result.ceilings],
        "ratios": {
            peer: {of: result.ratio(peer, of) for of in ("prefill", "decode")} for peer in peers
        },
        "arms": [
            {
                "name": arm.arm.name,
                "settings": {
                    name: _told_setting(value) for name, value in arm.arm.settings.items()
                },
                "environment": _told_environment(arm.arm.env),
                "about": dict(arm.about),
                "figures": figures(shape, result, arm),
                "samples": [sample.to_json() for sample in arm.samples],
            }
            for arm in result.arms
        ],
        "probes": {
            name: [sample.to_json() for sample in samples]
            for name, samples in result.probes.items()
        },
    }


def _told_setting(value: Any) -> Any:
    """Where somebody keeps a model is theirs; its name is enough."""
    is_path = isinstance(value, str) and value.startswith("/")
    return "/".join(Path(value).parts[-2:]) if is_path else value


def _told_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What decides speed; a whole environment may hold secrets."""
    known = ("OMP_", "KMP_", "GOMP_", "MKL_", "PYTORCH_", "TRITON_")
    return {name: value for name, value in sorted(env.items()) if name.startswith(known)}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "load_average": list(os.getloadavg()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("agentrt", "torch", "transformers", "triton")},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2] for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor()


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
