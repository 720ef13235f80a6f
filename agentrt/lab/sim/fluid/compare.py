"""The fluid mode against the step mode: the same programs at the same instants on a few engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from agentrt.base.config import SchedulerConfig
from agentrt.lab.sim.fluid.fleet import Fleet, FleetSetup
from agentrt.lab.sim.fluid.library import Floats, library_of
from agentrt.lab.sim.fluid.routing import Routing
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import ProgramTrace
from agentrt.lab.workloads.arrivals import poisson


@dataclass(frozen=True, slots=True)
class Compared:
    """Both modes at one rate.

    Attributes:
        rate: Programs a second, over all engines.
        busy: Share of the time in which an engine of the step mode had something to do.
        step_s: `[programs]` compound latency by steps.
        fluid_s: The same by rates.
    """

    rate: float
    busy: float
    step_s: Floats
    fluid_s: Floats

    def error(self, share: float) -> float:
        """Of a percentile, fluid by step less 1."""
        return float(np.quantile(self.fluid_s, share) / np.quantile(self.step_s, share) - 1)

    @property
    def mean_error(self) -> float:
        """Of the mean."""
        return float(self.fluid_s.mean() / self.step_s.mean() - 1)


def compare(
    setup: Setup,
    programs: Sequence[ProgramTrace],
    rates: Sequence[float],
    *,
    routing: Routing = "program-round-robin",
    seed: int = 0,
) -> list[Compared]:
    """Serve the programs in both modes at each rate.

    Args:
        setup: Of the engines; requests are served as they come, without a gate.
        programs: In the order of their arrival.
        rates: Programs a second over all engines.
        routing: Of the fluid mode; the step mode deals programs out in turn.
        seed: Of the instants of arrival.
    """
    library = library_of(programs, setup.page_tokens)
    fleet = FleetSetup(
        setup.costs,
        setup.kv_tokens,
        setup.engines,
        routing=routing,
        step_tokens=setup.step_tokens,
        max_running=setup.max_running,
        prefill_chunk_tokens=setup.prefill_chunk_tokens,
    )
    found = []
    for rate in rates:
        workload = poisson(programs, rate, Random(f"compare {seed}"))
        steps = Simulation(setup).run(workload)
        arrived_s = np.array([one.at_s for one in workload])
        fluid = Fleet(fleet, library).run(arrived_s, np.arange(len(programs)))
        span_s = steps.ended_at_s - min(one.submitted_at_s for one in steps.programs)
        busy_s = sum(engine.busy_s for engine in steps.engines)
        found.append(
            Compared(
                rate,
                busy_s / (setup.engines * span_s),
                np.array([one.latency_s for one in steps.programs]),
                fluid.latency_s,
            )
        )
    return found


def plain() -> SchedulerConfig:
    """What both modes know: requests are served as they come."""
    return SchedulerConfig(policy="fcfs", gate_share=0.0, retention=False)
