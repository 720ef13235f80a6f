"""Limits of outputs say nothing of a single call."""

from collections.abc import Sequence
from random import Random

import pytest

from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Workload
from agentrt.lab.workloads.arrivals import poisson
from agentrt.lab.workloads.mixes import OPEN_MIX, mix
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.site_limits import site_limits
from agentrt.protocol.events import Event, NodeDeclared, NodeFinished, RunStarted
from agentrt.scheduler.estimates.step_model import StepTime

COSTS = SimCosts(StepTime(base_s=0.01, prefill_s=1e-5, decode_s=1e-4, kv_s=0.0))


class Lengths:
    """Limits and lengths of all outputs, by program and call site."""

    def __init__(self) -> None:
        self.limits: dict[tuple[str, str], set[int]] = {}
        self.lengths: dict[tuple[str, str], list[int]] = {}
        self._programs: dict[str, str] = {}
        self._sites: dict[tuple[str, str], tuple[str, str]] = {}

    def on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, RunStarted):
                self._programs[event.run_id] = event.program.replace("_", "-")
            elif isinstance(event, NodeDeclared) and event.kind == "generate":
                site = (self._programs[event.run_id], event.name)
                self._sites[event.run_id, event.node_id] = site
                self.limits.setdefault(site, set()).add(event.max_tokens)
            elif isinstance(event, NodeFinished) and event.ledger and event.outcome == "ok":
                site = self._sites[event.run_id, event.node_id]
                self.lengths.setdefault(site, []).append(event.ledger.output_tokens)


def served(workload: Workload, policy: PolicyName, *, hides_lengths: bool) -> Lengths:
    """Limits and lengths of programs as the runtime saw them."""
    seen = Lengths()
    scheduler = SchedulerConfig(policy=policy)
    setup = Setup(COSTS, 16_384, scheduler=scheduler, hides_lengths=hides_lengths)
    Simulation(setup, observers=[seen]).run(workload)
    return seen


@pytest.mark.parametrize("policy", ["fcfs", "rwa", "clairvoyant"])
def test_no_policy_sees_the_length_of_a_call(policy: PolicyName) -> None:
    programs = mix(14, Random(3), Scale(context=0.1, output=0.3, think=0.0), OPEN_MIX)
    workload = poisson(programs, 5.0, Random(4))
    hidden, told = (served(workload, policy, hides_lengths=hides) for hides in (True, False))
    assert {site: {most} for site, most in site_limits(programs).items()} == hidden.limits
    assert sum(map(len, told.limits.values())) > 3 * len(told.limits), "each limit is a length"
    assert {site: sorted(said) for site, said in hidden.lengths.items()} == {
        site: sorted(said) for site, said in told.lengths.items()
    }
    for site, lengths in hidden.lengths.items():
        assert max(lengths) <= max(hidden.limits[site])
