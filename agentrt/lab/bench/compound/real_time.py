"""Our runtime on the embedded engine as something that serves workloads in real time.

What a simulator is held against: the programs are the same values, their text is spelt here, and
every play has text of its own, so that no play finds another's in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentrt import embedded
from agentrt.analysis.model_shape import shape_in
from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.lab.arms.program_arm import OpenPlayer
from agentrt.lab.arms.servers import Served
from agentrt.lab.arms.wire import ProgramTold, StepTold
from agentrt.lab.bench.compound.plan import ProgramDraw, default_scale, longest_tokens
from agentrt.lab.bench.compound.players import our_arm
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.workloads import ProgramTrace, Workload
from agentrt.lab.workloads.mixes import mix
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES
from agentrt.lab.workloads.text import KeySpeller, words_of


@dataclass(frozen=True, slots=True)
class ScaledModel:
    """A model and how programs are made small enough for it.

    Attributes:
        model: A checkpoint directory.
        scale: Of programs.
        drawing: That spells them.
    """

    model: Path
    scale: Scale
    drawing: ProgramDraw

    def draw(self, count: int, shares: Mapping[str, float], seed: int) -> list[ProgramTrace]:
        """Programs that fit the model's window."""
        random = Random(f"stage {seed}")
        found: list[ProgramTrace] = []
        while len(found) < count:
            (program,) = mix(1, random, self.scale, shares)
            if longest_tokens(program) <= self.drawing.window_tokens:
                found.append(program)
        return found


def stage_of(shape: str) -> ScaledModel:
    """For the embedded model, or for random weights of a named shape.

    Raises:
        UsageError: There is no such shape.
    """
    if shape == "embedded":
        model = Path(embedded.path())
        found = shape_in(model)
    else:
        found = shape_named(shape)
        model = checkpoint(found)
    scale = default_scale(found)
    spell = KeySpeller(words_of(model / "tokenizer.json"))
    return ScaledModel(model, scale, ProgramDraw(scale, SIZES, 0, spell, found.window_tokens))


class RealTime:
    """One engine with a policy.

    Args:
        stage: Of its model.
        policy: By which it serves.
        kv_tokens: Its memory.
        threads: Of the engine; 0 lets it choose.
        dtype: That it computes in.
        stack: Closes it.

    Attributes:
        told: Of each program, in the last play.
    """

    def __init__(
        self,
        stage: ScaledModel,
        policy: PolicyName,
        *,
        kv_tokens: int,
        threads: int,
        dtype: str,
        stack: ExitStack,
    ) -> None:
        served = Served(stage.model, dtype, kv_tokens=kv_tokens)
        self._stage = stage
        arm = our_arm(served, SchedulerConfig(policy=policy), threads=threads)
        self._player = OpenPlayer(arm, None)
        self._plays = 0
        self.told: Sequence[ProgramTold] = ()
        stack.callback(self._player.close)

    @property
    def steps(self) -> Sequence[StepTold]:
        """Of the engine, in the last play."""
        return self._player.steps

    def play(self, workload: Workload) -> list[float]:
        """Compound latency of each program.

        Raises:
            UsageError: There is none.
            BenchFailed: A program failed.
        """
        if not workload:
            raise UsageError("an empty workload plays nothing", hint="Give at least one program")
        self._plays += 1
        lines = self._stage.drawing.round("real time", workload).lines(f"play {self._plays}")
        self.told = self._player.play(lines)
        return [one["ended_s"] - one["arrived_s"] for one in self.told]
