"""The fluid mode against the step mode: the same programs at the same instants on a few engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from agentrt.analysis.statistics import Floats
from agentrt.lab.sim.fluid.fleet import Fleet
from agentrt.lab.sim.fluid.library import library_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import ProgramTrace
from agentrt.lab.workloads.arrivals import poisson


@dataclass(frozen=True, slots=True)
class Compared:
    """Both modes at one rate.

    Attributes:
        rate: Programs a second, over all engines.
        busy: Share of the time in which an engine of the step mode had work.
        step_s: `[programs]` compound latency in the step mode.
        fluid_s: `[programs]` compound latency in the fluid mode.
    """

    rate: float
    busy: float
    step_s: Floats
    fluid_s: Floats

    def error(self, share: float) -> float:
        """Percentile of the fluid mode divided by that of the step mode, less 1."""
        return float(np.quantile(self.fluid_s, share) / np.quantile(self.step_s, share) - 1)

    @property
    def mean_error(self) -> float:
        """Mean of the fluid mode divided by that of the step mode, less 1."""
        return float(self.fluid_s.mean() / self.step_s.mean() - 1)


def compare(
    setup: Setup, programs: Sequence[ProgramTrace], rates: Sequence[float], *, seed: int = 0
) -> list[Compared]:
    """Serve the programs in both modes at each rate; both assign programs to engines in turn.

    Args:
        setup: Settings of the engines, with the scheduler `arms.PLAIN`.
        programs: Programs in the order of their arrival.
        rates: Programs a second over all engines.
        seed: Seed of the instants of arrival.
    """
    library = library_of(programs)
    found = []
    for rate in rates:
        workload = poisson(programs, rate, Random(f"compare {seed}"))
        steps = Simulation(setup).run(workload)
        arrived_s = np.array([one.at_s for one in workload])
        fluid = Fleet(setup, library, "program-round-robin").run(
            arrived_s, np.arange(len(programs))
        )
        span_s = steps.ended_at_s - min(one.submitted_at_s for one in steps.programs)
        busy = sum(engine.busy_s for engine in steps.engines) / (setup.engines * span_s)
        step_s = np.array([one.latency_s for one in steps.programs])
        found.append(Compared(rate, busy, step_s, fluid.latency_s))
    return found
