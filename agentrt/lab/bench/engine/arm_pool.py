"""Opened arms, kept from point to point: loading a model takes longer than measuring it."""

from __future__ import annotations

from collections.abc import Collection

from agentrt.lab.arms.arm_process import Arm, ArmProcess
from agentrt.lab.bench.engine.points import SweepPoint, prompts_of
from agentrt.lab.bench.engine.sample import Sample, sample_from
from agentrt.lab.progress import log


def measure_round(arm: ArmProcess, point: SweepPoint, vocabulary: int, number: int) -> Sample:
    """Compute one round; every arm gets the same prompts in the same round."""
    answer = arm.ask(
        "round",
        prompts=prompts_of(point, vocabulary, number),
        new_tokens=point.new_tokens,
        shared=point.shared_tokens,
    )
    return sample_from(answer, arm=arm.arm.name)


class ArmPool:
    """The arms that are open."""

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
