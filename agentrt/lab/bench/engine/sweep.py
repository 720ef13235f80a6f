"""A sweep: for each row find each peer's best variant, then let the arms take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.cpu_cores import cores
from agentrt.lab.arms.peer_files import PeerFiles, peers_root
from agentrt.lab.bench.engine.open_arms import OpenArm, OpenArms
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.result import ArmResult, RowResult
from agentrt.lab.bench.engine.sample import Sample, check_equal_work
from agentrt.lab.bench.engine.variants import (
    CONSTRAINED,
    OURS,
    Arm,
    constrained_arm,
    our_arm,
    peer_arms,
)
from agentrt.lab.checkpoints.checkpoint import checkpoint

_PROBES = 2
"""Rounds in which variants of a peer compete; none of them counts."""


@dataclass(frozen=True, slots=True)
class SweepConfig:
    """How rows are measured.

    Attributes:
        shape: Of the model.
        peers: Measured beside the engine.
        repeats: Rounds that count, of each arm.
        device: Where everything computes.
        engine: More fields of `EngineConfig`.
        seed: Of the weights.
        weights: "saved" writes a checkpoint; "random" lets the engine make its own, where no peer
            needs the file and it is too large to write for one run.
        constrained: Whether the engine also writes JSON, to be compared with what it writes freely.
    """

    shape: ModelShape
    peers: tuple[str, ...]
    repeats: int
    device: str
    engine: Mapping[str, Any]
    seed: int = 0
    weights: str = "saved"
    constrained: bool = False


def measure(
    rows: Sequence[SweepPoint], config: SweepConfig, tell: Callable[[str], None]
) -> Iterator[RowResult]:
    """All rows, one after the other, each as soon as it is measured.

    Raises:
        BenchFailed: An arm failed, or did other work than the rest.
    """
    saved = config.weights == "saved"
    model = checkpoint(config.shape, seed=config.seed, with_weights=saved, tell=tell)
    files = PeerFiles(peers_root(), model)
    for peer in config.peers:
        files.check(peer)
    arms = OpenArms(tell)
    try:
        for row in rows:
            yield _measure_row(row, _arms_of(row, rows, config, files), config, arms)
    finally:
        arms.close()


def _arms_of(
    row: SweepPoint, rows: Sequence[SweepPoint], config: SweepConfig, files: PeerFiles
) -> dict[str, list[Arm]]:
    """Every variant, by engine."""
    own = {
        **config.engine,
        "device": config.device,
        "random_weights": config.weights == "random",
    }
    alike = [one for one in rows if one.dtype == row.dtype]
    found = {OURS: [our_arm(alike, files.checkpoint, own)]}
    if config.constrained:
        found[CONSTRAINED] = [constrained_arm(one) for one in found[OURS]]
    for peer in config.peers:
        found[peer] = peer_arms(peer, row, config.shape, files, device=config.device, cores=cores())
    return found


def _measure_row(
    row: SweepPoint, variants: Mapping[str, Sequence[Arm]], config: SweepConfig, arms: OpenArms
) -> RowResult:
    arms.keep([arm for of_engine in variants.values() for arm in of_engine])
    ours = arms.get(variants[OURS][0])
    question = {"do": "ceilings", "device": config.device, "dtype": row.dtype}
    ceilings = [ours.ask(question)]
    chosen: list[OpenArm] = []
    probes: dict[str, list[Sample]] = {}
    for of_engine in variants.values():
        opened = [arms.get(arm) for arm in of_engine]
        told = _probe(opened, row, config.shape)
        chosen += _fastest(opened, told)
        probes |= told
    results = _take_turns(chosen, row, config)
    ceilings.append(ours.ask(question))
    return RowResult(row=row, arms=results, probes=probes, ceilings=ceilings)


def _probe(arms: Sequence[OpenArm], row: SweepPoint, shape: ModelShape) -> dict[str, list[Sample]]:
    """Samples of variants that compete; none where there is one only."""
    samples: dict[str, list[Sample]] = {}
    for number in range(_PROBES if len(arms) > 1 else 0):
        for arm in arms:
            sample = arm.round(row, shape.vocabulary, -1 - number)
            samples.setdefault(arm.arm.name, []).append(sample)
    return samples


def _fastest(arms: Sequence[OpenArm], probes: Mapping[str, Sequence[Sample]]) -> list[OpenArm]:
    """Those that are fastest in prefill and in decode, often one."""
    if len(arms) == 1:
        return list(arms)
    winners = {
        min(probes, key=lambda name: min(of(sample) for sample in probes[name]))
        for of in (_prefill_s, _step_s)
    }
    return [arm for arm in arms if arm.arm.name in winners]


def _prefill_s(sample: Sample) -> float:
    return sample.prefill_s


def _step_s(sample: Sample) -> float:
    return sample.step_s


def _take_turns(arms: Sequence[OpenArm], row: SweepPoint, config: SweepConfig) -> list[ArmResult]:
    """Every arm once a round, the order turned round each time; the first round warms up."""
    samples: dict[str, list[Sample]] = {arm.arm.name: [] for arm in arms}
    for number in range(1 + config.repeats):
        order = arms if number % 2 else list(reversed(arms))
        told = {arm.arm.name: arm.round(row, config.shape.vocabulary, number) for arm in order}
        check_equal_work(told, row=row.name)
        if number > 0:
            for name, sample in told.items():
                samples[name].append(sample)
    return [ArmResult(arm.arm, arm.about, samples[arm.arm.name]) for arm in arms]
