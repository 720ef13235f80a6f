"""Our runtime on the real engine, serving workloads in real time; simulations are held against it.

The programs are the same values as in the simulator. Their text is spelled here, and every play has
text of its own, so that no play finds another's in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from random import Random

from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.program_arm import Played, play, runtime_arm
from agentrt.lab.arms.servers import Served
from agentrt.lab.bench.compound.model import BenchModel
from agentrt.lab.bench.compound.plan import Round, longest_tokens
from agentrt.lab.workloads import ProgramTrace, Workload
from agentrt.lab.workloads.mixes import mix


def draw_mix(
    model: BenchModel, count: int, shares: Mapping[str, float], seed: int
) -> list[ProgramTrace]:
    """Draw programs that fit the model's window."""
    random = Random(f"stage {seed}")
    found: list[ProgramTrace] = []
    while len(found) < count:
        (program,) = mix(1, random, model.drawing.scale, shares)
        if longest_tokens(program) <= model.drawing.window_tokens:
            found.append(program)
    return found


class RealTime:
    """One engine with a policy.

    Args:
        model: Model of the engine.
        policy: Policy of the scheduler.
        kv_tokens: Memory of the engine.
        threads: Threads of the engine; 0 lets it choose.
        stack: Closes the engine.
    """

    def __init__(
        self,
        model: BenchModel,
        policy: PolicyName,
        *,
        kv_tokens: int,
        threads: int,
        stack: ExitStack,
    ) -> None:
        served = Served(model.path, "auto", kv_tokens=kv_tokens)
        self._model = model
        self._process = ArmProcess(
            runtime_arm(served, SchedulerConfig(policy=policy), threads=threads)
        )
        self._plays = 0
        stack.callback(self._process.close)

    def play(self, workload: Workload) -> Played:
        """Serve a workload.

        Raises:
            UsageError: The workload is empty.
            BenchFailed: A program failed.
        """
        if not workload:
            raise UsageError("an empty workload plays nothing", hint="Give at least one program")
        self._plays += 1
        one = Round("real time", workload, self._model.drawing.spell)
        return play(self._process, one.lines(f"play {self._plays}"))
