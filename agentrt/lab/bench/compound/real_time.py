"""Our runtime on the real engine, serving workloads in real time; simulations are held against it.

The programs are the same values as in the simulator. Their text is spelled here, and every play has
text of its own, so that no play finds another's in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count
from random import Random

from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.program_arm import Played, play, runtime_arm
from agentrt.lab.arms.served import Served
from agentrt.lab.bench.compound.model import BenchModel
from agentrt.lab.bench.compound.plan import Round, longest_tokens
from agentrt.lab.workloads.mixes import mix
from agentrt.lab.workloads.trace import ProgramTrace, Workload


def draw_mix(
    model: BenchModel, programs: int, shares: Mapping[str, float], seed: int
) -> list[ProgramTrace]:
    """Draw programs that fit the model's window."""
    random = Random(f"stage {seed}")
    found: list[ProgramTrace] = []
    while len(found) < programs:
        (program,) = mix(1, random, model.drawing.scale, shares)
        if longest_tokens(program) <= model.drawing.window_tokens:
            found.append(program)
    return found


def real_time(
    model: BenchModel, policy: PolicyName, *, kv_tokens: int, threads: int, stack: ExitStack
) -> Callable[[Workload], Played]:
    """Open one engine with a policy; the function serves a workload.

    The function raises `UsageError` if the workload is empty, and `BenchFailed` if a program fails.

    Args:
        model: Model of the engine.
        policy: Policy of the scheduler.
        kv_tokens: Memory of the engine.
        threads: Threads of the engine; 0 lets it choose.
        stack: Closes the engine.
    """
    served = Served(model.path, "auto", kv_tokens=kv_tokens)
    process = ArmProcess(runtime_arm(served, SchedulerConfig(policy=policy), threads=threads))
    stack.callback(process.close)
    numbers = count(1)

    def serve(workload: Workload) -> Played:
        if not workload:
            raise UsageError("an empty workload plays nothing", hint="Give at least one program")
        one = Round("real time", workload, model.drawing.spell)
        return play(process, one.lines(f"play {next(numbers)}"))

    return serve
