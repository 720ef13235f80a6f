"""A program that has a simulated engine and all its memory alone."""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.record import record
from agentrt.lab.sim.arms import PLAIN
from agentrt.lab.sim.outcome import ProgramOutcome
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.sim.true_kv_need import TrueKvNeed
from agentrt.lab.workloads import Arrival, ProgramTrace
from agentrt.scheduler import Estimates

AMPLE_TOKENS = 1 << 20
"""KV memory that no mix fills."""


@record
class Alone:
    """A program alone.

    Attributes:
        outcome: Outcome of its run.
        kv: KV that it needs.
    """

    outcome: ProgramOutcome
    kv: TrueKvNeed


def ample(setup: Setup) -> Setup:
    """The engine with more memory than any program needs, without an offload tier."""
    return replace(setup, kv_tokens=AMPLE_TOKENS, host_kv_tokens=0, scheduler=PLAIN, accounts=False)


def played_alone(program: ProgramTrace, setup: Setup) -> Alone:
    """Run a program on an engine of its own, cold."""
    learned = Estimates()
    (outcome,) = Simulation(ample(setup), learned).run((Arrival(0.0, program),)).programs
    return Alone(outcome, TrueKvNeed.learned_from(learned))
