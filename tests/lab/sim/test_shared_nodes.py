"""Like generations of programs under way at once are computed once, as the runtime does it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agentrt.base.config import SchedulerConfig
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import (
    Arrival,
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    Workload,
)
from agentrt.lab.workloads.trace import TraceNode, seeds

Draw = Callable[[int, int, float], Workload]
TEXT = Piece("text", 60)
FCFS = SchedulerConfig(policy="fcfs", gate_share=0, retention=False)
RWA = SchedulerConfig()


def run(
    workload: Workload,
    costs: SimCosts,
    scheduler: SchedulerConfig = FCFS,
    kv_tokens: int = 4096,
    *,
    leaps: bool = True,
) -> SimulationOutcome:
    setup = Setup(costs, kv_tokens, max_running=12, scheduler=scheduler, leaps=leaps)
    return Simulation(setup).run(workload)


def says(*parts: Piece | OutputOf) -> tuple[Message, ...]:
    return (("user", parts),)


def program(*nodes: TraceNode, least: int = 0) -> ProgramTrace:
    """Its last node is its result, or so many of all its calls suffice."""
    names = tuple(node.name for node in nodes)
    quorum = (names, least) if least else None
    return ProgramTrace("one", 0, nodes, () if least else names[-1:], quorum=quorum)


ASK = TraceCall("ask", says(TEXT), 40, site="ask")
CHAIN = program(
    ASK, TraceCall("more", says(TEXT, OutputOf("ask")), 20, site="more", after=("ask",))
)


@pytest.mark.parametrize("scheduler", [FCFS, RWA], ids=["fcfs", "rwa"])
def test_the_same_program_twice_is_computed_once(
    scheduler: SchedulerConfig, costs: SimCosts
) -> None:
    """What goes on from a shared answer has the same text, and is shared as well."""
    once = run((Arrival(0.0, CHAIN),), costs, scheduler)
    twice = run((Arrival(0.0, CHAIN), Arrival(0.0, CHAIN)), costs, scheduler)
    first, second = twice.programs
    assert (first.joined, second.joined) == (0, 2)
    assert twice.engines[0].decode_tokens == once.engines[0].decode_tokens
    assert twice.engines[0].prefill_tokens == once.engines[0].prefill_tokens
    assert second.output_tokens == first.output_tokens == 60
    assert second.cached_tokens == second.prompt_tokens
    assert second.latency_s == pytest.approx(first.latency_s)
    apart = run(
        (Arrival(0.0, CHAIN), Arrival(0.0, CHAIN)), costs, replace(scheduler, share_nodes=False)
    )
    assert apart.engines[0].decode_tokens == 2 * once.engines[0].decode_tokens
    assert sum(one.joined for one in apart.programs) == 0


def test_who_comes_later_gets_the_rest(costs: SimCosts) -> None:
    """Its account begins when it came; what it waits for ends when the first one's does."""
    one = program(ASK)
    alone = run((Arrival(0.0, one),), costs).programs[0]
    late_s = alone.latency_s / 2
    outcome = run((Arrival(0.0, one), Arrival(late_s, one)), costs)
    first, second = outcome.programs
    assert second.joined == 1
    assert second.latency_s == pytest.approx(first.latency_s - late_s)
    assert second.decode_s + second.prefill_s + second.queue_s <= second.latency_s
    assert second.first_s + second.rest_s <= second.latency_s


@pytest.mark.parametrize("late", [False, True])
def test_a_tool_of_a_shared_plan_starts_within_it(costs: SimCosts, late: bool) -> None:
    """At its mark; at once where the plan is longer already."""
    tool = ToolUse("tool", 9.0, plan="ask", at_token=10, result_tokens=1, site="tool")
    plan = program(ASK, tool)
    alone = run((Arrival(0.0, program(ASK)), Arrival(0.0, plan)), costs).programs
    late_s = alone[0].latency_s * 0.6 if late else 0.0
    first, second = run((Arrival(0.0, program(ASK)), Arrival(late_s, plan)), costs).programs
    assert second.joined == 1
    assert first.latency_s == pytest.approx(alone[0].latency_s)
    step_s = costs.step.base_s + costs.step.decode_s + 1e-3
    if late:
        assert second.latency_s == pytest.approx(9.0, abs=3 * step_s)
    else:
        own = run((Arrival(0.0, plan),), costs).programs[0]
        assert second.latency_s == pytest.approx(own.latency_s, abs=step_s)


@pytest.mark.parametrize("at", [0, 1])
def test_who_gives_up_leaves_the_others_alone(costs: SimCosts, at: int) -> None:
    """First come or second: what somebody else wants goes on, under the first one's name."""
    short = TraceCall("short", says(Piece("other", 30)), 5, site="short")
    votes, asks = program(short, ASK, least=1), program(ASK)
    programs = [votes, asks] if at == 0 else [asks, votes]
    outcome = run(tuple(Arrival(0.0, one) for one in programs), costs)
    gave_up, got = outcome.programs if at == 0 else reversed(outcome.programs)
    assert gave_up.latency_s < 0.5 * got.latency_s
    assert got.output_tokens == 40
    assert 0 < gave_up.wasted_tokens < 40
    assert (gave_up.joined, got.joined) == ((0, 1) if at == 0 else (1, 0))
    assert outcome.engines[0].decode_tokens == 40 + 5


def test_what_nobody_wants_any_more_ends(costs: SimCosts) -> None:
    short = TraceCall("short", says(Piece("other", 30)), 5, site="short")
    votes = program(short, ASK, least=1)
    outcome = run((Arrival(0.0, votes), Arrival(0.0, votes)), costs)
    assert outcome.engines[0].decode_tokens < 25


def test_a_prompt_that_becomes_whole_joins(costs: SimCosts) -> None:
    """Until its hole is filled it is a request of its own, which is then taken back."""
    quick = TraceCall("quick", says(Piece("quick", 20)), 3, site="quick")
    holed = TraceCall("holed", says(TEXT, OutputOf("quick")), 30, site="holed")
    one = program(quick, holed)
    outcome = run((Arrival(0.0, one), Arrival(0.0, one)), costs)
    assert [found.joined for found in outcome.programs] == [0, 2]
    assert outcome.engines[0].decode_tokens == 33
    assert all(found.output_tokens == 33 for found in outcome.programs)


def test_samples_are_to_differ(costs: SimCosts) -> None:
    """Those of one program each; the same sample of another program is the same."""
    samples = program(*(replace(ASK, name=f"sample{at}") for at in range(3)), least=3)
    assert seeds(samples) == {"sample0": 0, "sample1": 1, "sample2": 2}
    assert seeds(CHAIN) == {}
    outcome = run((Arrival(0.0, samples), Arrival(0.0, samples)), costs)
    assert [one.joined for one in outcome.programs] == [0, 3]
    assert outcome.engines[0].decode_tokens == 3 * 40


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scheduler", [FCFS, RWA], ids=["fcfs", "rwa"])
def test_equal_steps_at_once_change_nothing(
    seed: int, scheduler: SchedulerConfig, draw: Draw, costs: SimCosts
) -> None:
    """Each program comes again soon after, in little memory; all but votes get the same."""
    workload = draw(seed, 12, 1.0)
    again = tuple(Arrival(one.at_s + 0.4, one.program) for one in workload)
    both = tuple(sorted((*workload, *again), key=lambda one: one.at_s))
    leapt, plain = (run(both, costs, scheduler, 640, leaps=leaps) for leaps in (True, False))
    assert leapt.programs == plain.programs
    assert leapt.engines == plain.engines
    assert sum(one.joined for one in leapt.programs) > 0
    apart = run(both, costs, replace(scheduler, share_nodes=False), 640)
    assert leapt.engines[0].decode_tokens < apart.engines[0].decode_tokens
    for shared, own in zip(leapt.programs, apart.programs, strict=True):
        assert shared.output_tokens == own.output_tokens or shared.shape == "vote"
