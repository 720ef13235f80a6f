"""KV in the memory of an engine's host: decided as in production, copied in virtual time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.base.config import SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.engine.core import EngineCore
from agentrt.engine.step.step_runner import InFlightStep
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Arrival, Workload
from agentrt.protocol.step_output import StepDone

Draw = Callable[[int, int, float], Workload]
FCFS = SchedulerConfig(policy="fcfs", gate_share=0, retention=False)
RWA = SchedulerConfig()
PAGE = 16
TINY_PAGE_BYTES = PAGE * 2 * 2 * 2 * 8 * 4  # two layers, keys and values, two heads of eight floats

drawn = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def copying(costs: SimCosts) -> SimCosts:
    """Copies take a thousandth of what computing takes."""
    return dataclasses.replace(costs, copy_token_s=1e-6, kv_token_bytes=1000)


def run(
    workload: Workload,
    costs: SimCosts,
    kv_tokens: int = 640,
    host_kv_tokens: int = 0,
    scheduler: SchedulerConfig = FCFS,
    *,
    leaps: bool = True,
) -> SimulationOutcome:
    setup = Setup(
        costs, kv_tokens, host_kv_tokens, max_running=12, scheduler=scheduler, leaps=leaps
    )
    return Simulation(setup).run(workload)


def computed_tokens(outcome: SimulationOutcome) -> int:
    return sum(engine.prefill_tokens for engine in outcome.engines)


def one_by_one(workload: Workload) -> Workload:
    """The same programs, each long after the one before."""
    return tuple(Arrival(1000.0 * at, one.program) for at, one in enumerate(workload))


@drawn
@given(seed=st.integers(0, 10**6), host_pages=st.integers(1, 80), knows=st.booleans())
def test_there_is_never_more_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
    draw: Draw,
    copying: SimCosts,
    seed: int,
    host_pages: int,
    knows: bool,
) -> None:
    """After every step, on the device and on the host; at the end all belongs to the trees."""
    cores: set[EngineCore] = set()
    end_step = EngineCore.end_step

    def ended(core: EngineCore, step: InFlightStep) -> list[StepDone]:
        cores.add(core)
        found = end_step(core, step)
        assert core.executor.offload is not None
        pool = core.executor.offload.tier.pool
        assert 0 <= pool.tree_pages <= host_pages == pool.total_pages
        assert pool.owned_pages == 0
        device = core.allocator.pool
        assert device.free_pages + device.owned_pages + device.tree_pages == 40
        return found

    with monkeypatch.context() as patch:
        patch.setattr(EngineCore, "end_step", ended)
        scheduler = RWA if knows else FCFS
        run(draw(seed, 15, 2.0), copying, 640, host_pages * PAGE, scheduler)
    (core,) = cores
    assert core.executor.offload is not None
    tier = core.executor.offload.tier
    for tree, pool in ((core.allocator.tree, core.allocator.pool), (tier.tree, tier.pool)):
        assert pool.owned_pages == 0
        assert sum(len(node.pages) for node in tree.nodes()) == pool.tree_pages


@drawn
@given(seed=st.integers(0, 10**6))
def test_what_can_bring_nothing_back_changes_nothing(
    draw: Draw, costs: SimCosts, seed: int
) -> None:
    """A host of one page, copied in no time, and none at all."""
    workload = draw(seed, 20, 2.0)
    idle = dataclasses.replace(costs, kv_token_bytes=1000)
    none, one_page = (run(workload, idle, 640, tokens) for tokens in (0, PAGE))
    assert one_page.programs == none.programs
    kept = dataclasses.replace(one_page.engines[0], saved_tokens=0)
    assert kept == none.engines[0]


@drawn
@given(seed=st.integers(0, 10**6), knows=st.booleans())
def test_a_large_host_spares_computing(
    draw: Draw, copying: SimCosts, seed: int, knows: bool
) -> None:
    """One program after the other; many at once may come in another order."""
    workload = one_by_one(draw(seed, 12, 2.0) * 2)
    scheduler = RWA if knows else FCFS
    without, with_host = (run(workload, copying, 480, tokens, scheduler) for tokens in (0, 1 << 16))
    assert computed_tokens(with_host) <= computed_tokens(without)
    restored = sum(one.cached_host_tokens for one in with_host.programs)
    assert restored <= sum(one.cached_tokens for one in with_host.programs)
    assert restored <= with_host.engines[0].loaded_tokens


@pytest.mark.parametrize("seed", range(3))
def test_many_at_once_are_spared_computing(seed: int, draw: Draw, copying: SimCosts) -> None:
    workload = draw(seed, 40, 2.0)
    without, with_host = (run(workload, copying, 640, tokens) for tokens in (0, 1 << 16))
    assert computed_tokens(with_host) < 0.9 * computed_tokens(without)
    mean, less = (
        sum(one.latency_s for one in outcome.programs) for outcome in (without, with_host)
    )
    assert less < mean
    (totals,) = with_host.engines
    assert totals.saved_tokens >= totals.loaded_tokens > 0
    assert totals.copied_s == pytest.approx(1e-6 * (totals.saved_tokens + totals.loaded_tokens))


@pytest.mark.parametrize("scheduler", [FCFS, RWA], ids=["fcfs", "rwa"])
@pytest.mark.parametrize("seed", range(2))
def test_equal_steps_at_once_change_nothing(
    seed: int, scheduler: SchedulerConfig, draw: Draw, copying: SimCosts
) -> None:
    leapt, plain = (
        run(draw(seed, 25, 1.5), copying, 640, 2048, scheduler, leaps=leaps)
        for leaps in (True, False)
    )
    assert leapt.programs == plain.programs
    assert leapt.engines == plain.engines


@pytest.mark.parametrize("seed", range(2))
def test_policies_are_ranked_as_without(seed: int, draw: Draw, copying: SimCosts) -> None:
    """A host of one page only: who was faster stays so, whatever else is said of prefixes."""
    workload = draw(seed, 40, 2.0)

    def ranked(host_kv_tokens: int) -> list[str]:
        mean_s = {
            policy: sum(
                one.latency_s
                for one in run(
                    workload,
                    copying,
                    640,
                    host_kv_tokens,
                    SchedulerConfig(policy=policy, gate_share=0, retention=False),
                ).programs
            )
            for policy in ("fcfs", "lpm", "plas", "rwa")
        }
        return sorted(mean_s, key=lambda policy: mean_s[policy])

    assert ranked(PAGE) == ranked(0)


def test_copies_that_take_long_are_given_up(draw: Draw, costs: SimCosts) -> None:
    """Once it is known that computing is faster, prefixes are computed again."""
    slow = dataclasses.replace(costs, copy_token_s=0.1, kv_token_bytes=1000)
    workload = draw(0, 40, 2.0)
    (totals,) = run(workload, slow, 640, 1 << 16).engines
    (quick,) = run(workload, dataclasses.replace(slow, copy_token_s=1e-6), 640, 1 << 16).engines
    assert 0 < totals.saved_tokens < 0.5 * quick.saved_tokens


def test_costs_that_do_not_tell_what_a_token_takes(draw: Draw, costs: SimCosts) -> None:
    with pytest.raises(UsageError, match="lack the memory of a token"):
        run(draw(0, 1, 1.0), costs, 640, 1024)
