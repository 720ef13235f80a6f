"""A sweep: at each point find each peer's best variant, then let the arms take turns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.cpu_cores import cores
from agentrt.lab.arms.arm_process import OURS, Arm, ArmProcess
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.result import ArmResult, PointResult
from agentrt.lab.bench.engine.sample import Sample, check_equal_work, measure_round
from agentrt.lab.bench.engine.variants import CONSTRAINED, constrained_arm, our_arm, peer_arms
from agentrt.lab.bench.flags import EngineFlags
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.progress import WorkPace, log

_PROBES = 2
"""Rounds in which variants of a peer compete; none of them counts."""
_WORTH_SAVING_BYTES = 6 << 30


class ArmPool:
    """The arms that are open from point to point: loading a model takes longer than measuring."""

    def __init__(self) -> None:
        self._open: dict[str, ArmProcess] = {}

    def get(self, arm: Arm) -> ArmProcess:
        """The opened arm, loaded if necessary."""
        if arm.key not in self._open:
            log(f"loading {arm.name}")
            self._open[arm.key] = ArmProcess(arm)
        return self._open[arm.key]

    def keep(self, arms: Collection[Arm]) -> None:
        """Close all other arms."""
        keys = {arm.key for arm in arms}
        for key in self._open.keys() - keys:
            self._open.pop(key).close()

    def close(self) -> None:
        """Close all arms."""
        self.keep(())


def measure(
    points: Sequence[SweepPoint], shape: ModelShape, flags: EngineFlags
) -> Iterator[PointResult]:
    """Measure all points, each given as soon as it is measured.

    A checkpoint that no peer reads is not written if it is large: the engine makes its own weights.

    Raises:
        BenchFailed: An arm failed, or did other work than the rest.
    """
    saved = bool(flags.peers) or 2 * shape.parameters <= _WORTH_SAVING_BYTES
    files = peer_files(checkpoint(shape, with_weights=saved))
    arms = ArmPool()
    pace = WorkPace("points", len(points))
    try:
        for point in points:
            alike = [one for one in points if one.dtype == point.dtype]
            engine = {
                "threads": flags.threads,
                "kernels": flags.kernels,
                "weights": flags.weights,
                "activations": flags.activations,
                "kv_cache_dtype": flags.kv_cache_dtype,
                "expert_memory": flags.expert_memory,
                "device": flags.device,
                "random_weights": not saved,
            }
            ours = our_arm(alike, files.checkpoint, engine)
            variants = {OURS: [ours]}
            if flags.constrained:
                variants[CONSTRAINED] = [constrained_arm(ours)]
            for peer in flags.peers:
                variants[peer] = peer_arms(
                    peer,
                    point,
                    shape,
                    files,
                    device=flags.device,
                    cores=cores(),
                )
            found = _measure_point(point, variants, shape, flags, arms)
            pace.done(point.name)
            yield found
    finally:
        arms.close()


def _measure_point(
    point: SweepPoint,
    variants: Mapping[str, Sequence[Arm]],
    shape: ModelShape,
    flags: EngineFlags,
    arms: ArmPool,
) -> PointResult:
    arms.keep([arm for of_engine in variants.values() for arm in of_engine])
    ours = arms.get(variants[OURS][0])
    ceilings = [ours.ask("roofline", device=flags.device, dtype=point.dtype)]
    chosen: list[ArmProcess] = []
    probes: dict[str, list[Sample]] = {}
    for of_engine in variants.values():
        opened = [arms.get(arm) for arm in of_engine]
        found = _probe(opened, point, shape)
        chosen += _fastest(opened, found)
        probes |= found
    results = _take_turns(chosen, point, shape, flags.counted)
    ceilings.append(ours.ask("roofline", device=flags.device, dtype=point.dtype))
    return PointResult(point=point, arms=results, probes=probes, ceilings=ceilings)


def _probe(
    arms: Sequence[ArmProcess], point: SweepPoint, shape: ModelShape
) -> dict[str, list[Sample]]:
    """Samples of competing variants; none if there is only one."""
    samples: dict[str, list[Sample]] = {}
    for number in range(_PROBES if len(arms) > 1 else 0):
        for arm in arms:
            sample = measure_round(arm, point, shape.vocabulary, -1 - number)
            samples.setdefault(arm.arm.name, []).append(sample)
    return samples


def _fastest(
    arms: Sequence[ArmProcess], probes: Mapping[str, Sequence[Sample]]
) -> list[ArmProcess]:
    """The variants that are fastest in prefill and in decode, often one."""
    if len(arms) == 1:
        return list(arms)
    winners = {
        min(probes, key=lambda name: min(getattr(sample, of) for sample in probes[name]))
        for of in ("prefill_s", "step_s")
    }
    return [arm for arm in arms if arm.arm.name in winners]


def _take_turns(
    arms: Sequence[ArmProcess], point: SweepPoint, shape: ModelShape, repeats: int
) -> list[ArmResult]:
    """Every arm once a round, in an order that turns round each time; the first round warms up."""
    samples: dict[str, list[Sample]] = {arm.arm.name: [] for arm in arms}
    for number in range(1 + repeats):
        order = arms if number % 2 else list(reversed(arms))
        found = {arm.arm.name: measure_round(arm, point, shape.vocabulary, number) for arm in order}
        check_equal_work(found, point=point.name)
        if number > 0:
            for name, sample in found.items():
                samples[name].append(sample)
    return [ArmResult(arm.arm, arm.about, samples[arm.arm.name]) for arm in arms]
