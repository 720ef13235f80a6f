"""Arms whose processes run, kept from row to row."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from agentrt.lab.arms.arm_process import ArmChild
from agentrt.lab.bench.engine.points import SweepPoint, prompts_of
from agentrt.lab.bench.engine.sample import Sample, sample_from
from agentrt.lab.bench.engine.variants import Arm


class OpenArm:
    """An arm whose process runs and has loaded its model."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self._child = ArmChild(arm.name, arm.command, {**os.environ, **arm.env})
        self.about = self._asked({"do": "open", "settings": dict(arm.settings)})

    def round(self, row: SweepPoint, vocabulary: int, number: int) -> Sample:
        """One round; every arm gets the same prompts in the same round."""
        question = {
            "do": "round",
            "prompts": prompts_of(row, vocabulary, number),
            "new_tokens": row.new_tokens,
            "shared": row.shared_tokens,
        }
        return sample_from(self._child.ask(question), arm=self.arm.name)

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Any other question.

        Raises:
            BenchFailed: It could not be answered.
        """
        return self._asked(question)

    def close(self) -> None:
        """End its process."""
        self._child.close()

    def _asked(self, question: Mapping[str, Any]) -> dict[str, Any]:
        told = self._child.ask(question)
        if told.get("error"):
            self._child.close()
            sample_from(told, arm=self.arm.name)
        return told


class OpenArms:
    """The arms that are open; loading a model takes longer than measuring it.

    Args:
        tell: Called with what is being loaded.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._open: dict[str, OpenArm] = {}

    def get(self, arm: Arm) -> OpenArm:
        """The open arm; loads it where it is not."""
        if arm.key not in self._open:
            self._tell(f"loading {arm.name}")
            self._open[arm.key] = OpenArm(arm)
        return self._open[arm.key]

    def keep(self, arms: Collection[Arm]) -> None:
        """Close all others."""
        keys = {arm.key for arm in arms}
        for key in [key for key in self._open if key not in keys]:
            self._open.pop(key).close()

    def close(self) -> None:
        """Close all."""
        self.keep(())
