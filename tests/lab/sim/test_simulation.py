"""Programs in virtual time, served by the engine's own order and pages."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, get_args

import pytest

from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.base.errors import OutOfPages
from agentrt.base.ids import RunId
from agentrt.lab.sim.backend import SimulatedBackend
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.outcome_observer import OutcomeObserver
from agentrt.lab.sim.player import TracePlayer
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import (
    Arrival,
    Message,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    Workload,
)
from agentrt.lab.workloads.trace import Part
from agentrt.protocol.events import Event, NodeDeclared, NodeDemanded, NodeFinished

Draw = Callable[[int, int, float], Workload]

RWA = SchedulerConfig()
FCFS = SchedulerConfig(policy="fcfs", gate_share=0)
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)


def run(
    workload: Workload,
    costs: SimCosts,
    kv_tokens: int = 4096,
    max_running: int = 64,
    engines: int = 1,
    *,
    leaps: bool = True,
    scheduler: SchedulerConfig = RWA,
) -> SimulationOutcome:
    setup = Setup(
        costs,
        kv_tokens,
        engines=engines,
        max_running=max_running,
        scheduler=scheduler,
        leaps=leaps,
    )
    return Simulation(setup).run(workload)


class Watch(OutcomeObserver):
    """Keeps all events, and the service that a run still needs at the end of each generation."""

    told: ClassVar[list[Event]] = []
    rests_s: ClassVar[list[float]] = []

    def __init__(self, players: Mapping[RunId, TracePlayer], backend: SimulatedBackend) -> None:
        super().__init__(players, backend)
        self.players = players

    def on_events(self, events: Sequence[Event]) -> None:
        super().on_events(events)
        self.told.extend(events)
        ended = [one for one in events if isinstance(one, NodeFinished) and one.ledger]
        self.rests_s.extend(self.players[one.run_id].rest_s for one in ended)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> type[Watch]:
    """The observer of the simulations of a test."""
    Watch.told.clear()
    Watch.rests_s.clear()
    monkeypatch.setattr("agentrt.lab.sim.simulation.OutcomeObserver", Watch)
    return Watch


def answer_to(tool: ToolUse) -> TraceCall:
    """A short call over what a tool gave."""
    prompt = says(TraceResult(tool.name, tool.result_tokens))
    return TraceCall("answer", prompt, 3, site="answer", after=(tool.name,))


def says(*parts: Part) -> tuple[Message, ...]:
    """A prompt of one message."""
    return (("user", parts),)


def alone(costs: SimCosts, *nodes: TraceCall | ToolUse, kv_tokens: int = 4096) -> float:
    """Compound latency of one program, from its last node's end."""
    program = ProgramTrace("one", 0, nodes, (nodes[-1].name,))
    return run((Arrival(0.0, program),), costs, kv_tokens=kv_tokens).programs[0].latency_s


@pytest.mark.parametrize("seed", range(len(POLICIES)))
@pytest.mark.parametrize("kv_tokens", [1024, 2048, 16384])
def test_equal_steps_at_once_change_nothing(
    seed: int, kv_tokens: int, draw: Draw, costs: SimCosts
) -> None:
    """Leaping over steps in which nothing can change gives what plain steps give, to the bit."""
    workload = draw(seed, 25, 1.5)
    scheduler = SchedulerConfig(policy=POLICIES[seed], gate_share=0.8 * (seed > 1))
    leapt, plain = (
        run(workload, costs, kv_tokens, max_running=12, leaps=leaps, scheduler=scheduler)
        for leaps in (True, False)
    )
    assert [dataclasses.astuple(p) for p in leapt.programs] == [
        dataclasses.astuple(p) for p in plain.programs
    ]
    assert leapt.engines == plain.engines
    assert leapt.ended_at_s == plain.ended_at_s


def test_a_seed_decides_everything(draw: Draw, costs: SimCosts) -> None:
    one, other = (run(draw(7, 30, 2.0), costs, kv_tokens=1500) for _ in range(2))
    assert [p.latency_s for p in one.programs] == [p.latency_s for p in other.programs]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_computed_is_what_was_asked_for(seed: int, draw: Draw, costs: SimCosts) -> None:
    """Every program ends; prompts are in the cache or computed, what is lost computed again.

    Votes among them: what they gave up in time nobody computed.
    """
    workload = draw(seed, 40, 4.0)
    outcome = run(workload, costs, kv_tokens=448, max_running=8, scheduler=FCFS)
    assert len(outcome.programs) == len(workload)
    assert all(one.finished_at_s > one.submitted_at_s for one in outcome.programs)
    (totals,) = outcome.engines
    asked = sum(one.prompt_tokens - one.cached_tokens for one in outcome.programs)
    asked -= totals.unread_tokens
    again = sum(one.recomputed_tokens for one in outcome.programs)
    put_out = sum(one.output_tokens + one.wasted_tokens for one in outcome.programs)
    drawn = totals.decode_tokens - totals.discarded_tokens
    # Forced tokens and tokens computed again count where the engine counts them: as prompt tokens.
    assert again > 0
    assert totals.discarded_tokens > 0
    assert totals.prefill_tokens + drawn == pytest.approx(asked + again + put_out, rel=0.005)


def test_a_runtime_goes_on_with_what_it_has_learned(draw: Draw, costs: SimCosts) -> None:
    """The same programs again, as others: none of their text is found, but the gate is open."""
    step = dataclasses.replace(costs.step, prefill_s=1e-6)
    cheap = dataclasses.replace(costs, step=step, pair_s=0.0)
    workload = draw(0, 40, 4.0)
    simulation = Simulation(Setup(cheap, 512, max_running=8))
    first, then = simulation.run(workload), simulation.run(workload)
    assert sum(one.held_s for one in first.programs) > 0
    assert sum(one.held_s for one in then.programs) == 0
    (fresh,) = Simulation(Setup(cheap, 512, max_running=8)).run(workload).engines
    assert fresh == first.engines[0]
    assert then.engines[0].prefill_tokens >= first.engines[0].prefill_tokens
    slow = dataclasses.replace(cheap, tool_s=5.0)
    slower = simulation.run(workload, [(0.0, slow)])
    assert slower.programs[0].latency_s > then.programs[0].latency_s + 4.0


def test_a_lone_generation_takes_what_its_steps_take(costs: SimCosts) -> None:
    call = TraceCall("a", says(Piece("p", 98)), 10, site="a")
    step, prompt = costs.step, 98 + 3
    first = step.base_s + step.prefill_s * prompt + step.decode_s + step.kv_s * prompt
    first += costs.pair_s * prompt * prompt / 2
    rest = sum(step.base_s + step.decode_s + step.kv_s * (prompt + at) for at in range(1, 10))
    around = costs.run_s + costs.submit_s + costs.deliver_s
    assert alone(costs, call) == pytest.approx(first + rest + around)


def test_between_steps_the_engine_tells_and_hears(costs: SimCosts) -> None:
    """Ten steps of one sequence: nine gaps; of more sequences each is longer."""
    call = TraceCall("a", says(Piece("p", 98)), 10, site="a")
    gaps = dataclasses.replace(costs, gap_s=2e-3, gap_row_s=5e-4)
    assert alone(gaps, call) - alone(costs, call) == pytest.approx(9 * 2.5e-3)


def test_a_turn_reaches_the_engine_at_once(costs: SimCosts) -> None:
    """Four calls declared together wait for each other's spelling, and share every step."""
    calls = [TraceCall(f"c{at}", says(Piece(f"p{at}", 20)), 6, site="c") for at in range(4)]
    slow = dataclasses.replace(costs, call_s=0.05)
    program = ProgramTrace("four", 0, tuple(calls), tuple(call.name for call in calls))
    outcome = run((Arrival(0.0, program),), slow)
    assert outcome.engines[0].steps == 6
    plain = run((Arrival(0.0, program),), costs).programs[0].latency_s
    assert outcome.programs[0].latency_s - plain == pytest.approx(4 * 0.05)


def test_ends_tools_and_callers_take_time(costs: SimCosts) -> None:
    call = TraceCall("a", says(Piece("p", 30)), 3, site="a")
    tool = ToolUse("t", 0.5, after=("a",), result_tokens=1, site="t")
    before_s = alone(costs, call, tool)
    for name, times in (("tool_s", 1), ("end_s", 1), ("run_s", 1), ("submit_s", 1)):
        slower = dataclasses.replace(costs, **{name: getattr(costs, name) + 0.1})
        assert alone(slower, call, tool) - before_s == pytest.approx(times * 0.1), name


def test_values_that_come_together_wait_for_each_other(costs: SimCosts) -> None:
    """What follows six calls that end together is sent when all six ends were dealt with."""
    calls = [TraceCall(f"c{at}", says(Piece(f"p{at}", 20)), 6, site="c") for at in range(6)]
    last = TraceCall("last", says(Piece("l", 9)), 2, ("c0",), site="l")
    slow = dataclasses.replace(costs, close_s=0.01)
    ends = len(calls) + 1
    assert alone(slow, *calls, last) - alone(costs, *calls, last) == pytest.approx(ends * 0.01)


def test_a_step_is_read_before_a_value_is_there(costs: SimCosts) -> None:
    """The last step is read within what its delivery takes; those before it kept nobody waiting."""
    call = TraceCall("a", says(Piece("p", 30)), 3, site="a")
    before_s = alone(costs, call)
    reading = dataclasses.replace(
        costs, deliver_s=costs.deliver_s + 5e-3, tell_s=4e-3, delta_s=1e-3
    )
    assert alone(reading, call) - before_s == pytest.approx(5e-3)
    behind = dataclasses.replace(reading, tell_s=0.1)
    steps_s = [costs.of(StepWork(0, 1, 33 + at, 0.0)) for at in (1, 2)]
    assert alone(behind, call) - before_s == pytest.approx(
        3 * 0.101 - sum(steps_s) - costs.deliver_s
    )


def test_templates_begin_with_tokens(costs: SimCosts) -> None:
    call = TraceCall("a", says(Piece("p", 30)), 3, site="a")
    program = ProgramTrace("one", 0, (call,), ("a",))
    for start in (0, 1, 4):
        setup = Setup(costs, 4096, start_tokens=start)
        found = Simulation(setup).run((Arrival(0.0, program),)).programs[0]
        assert found.prompt_tokens == 30 + 3 + start


def test_a_grammar_takes_its_part_and_gives_what_the_engine_takes(costs: SimCosts) -> None:
    """Of 40 tokens 30 given: with half of them written without a step there are 25 steps."""
    call = TraceCall("a", says(Piece("p", 30)), 40, site="a", forced_tokens=30)
    half = dataclasses.replace(costs, jump_share=0.5)
    outcome = run((Arrival(0.0, ProgramTrace("one", 0, (call,), ("a",))),), half)
    assert outcome.engines[0].steps == 25
    none = dataclasses.replace(costs, jump_share=0.0)
    masked = dataclasses.replace(none, form_s=1e-3)
    assert alone(masked, call) - alone(none, call) == pytest.approx(40 * 1e-3)
    free = TraceCall("a", says(Piece("p", 30)), 40, site="a")
    assert alone(masked, free) == alone(none, free)


def test_forced_tokens_take_fewer_steps(costs: SimCosts) -> None:
    """Of 40 tokens 30 forced: a quarter of the steps."""
    prompt = says(Piece("p", 30))
    free = alone(costs, TraceCall("a", prompt, 40, site="a"))
    forced = alone(costs, TraceCall("a", prompt, 40, site="a", forced_tokens=30))
    assert 0.2 < (forced - free / 40) / free < 1.0
    assert forced < 0.95 * free


def test_a_tool_starts_when_its_arguments_are_complete(costs: SimCosts) -> None:
    """A second of tool beside the rest of the plan, not behind it."""
    plan = TraceCall("plan", says(Piece("p", 30)), 50, site="plan")
    late = alone(costs, plan, ToolUse("t", 1.0, plan="plan", result_tokens=5, site="t"))
    early = alone(
        costs, plan, ToolUse("t", 1.0, plan="plan", at_token=10, result_tokens=5, site="t")
    )
    forty_steps = 40 * (costs.step.base_s + costs.step.decode_s)
    assert late - early == pytest.approx(forty_steps, rel=0.01)


def test_a_tool_waits_until_its_arguments_are_read(costs: SimCosts) -> None:
    """Also if another generation ends in a step between: twice, as the last value is read, too."""
    plan = TraceCall("plan", says(Piece("p", 30)), 30, site="plan")
    tool = ToolUse("t", 1.0, plan="plan", at_token=10, result_tokens=5, site="t")
    other = TraceCall("other", says(Piece("q", 30)), 5, site="other")
    programs = (
        ProgramTrace("tool", 0, (plan, tool, answer_to(tool)), ("answer",)),
        ProgramTrace("other", 0, (other,), ("other",)),
    )
    slow = dataclasses.replace(costs, deliver_s=costs.deliver_s + 0.01)
    latency_s = [
        run(tuple(Arrival(0.0, one) for one in programs), each).programs[0].latency_s
        for each in (costs, slow)
    ]
    assert latency_s[1] - latency_s[0] == pytest.approx(2 * 0.01)


def test_a_call_that_is_over_is_no_rest_of_its_run(costs: SimCosts, watch: type[Watch]) -> None:
    """In the turn that ends it already: engines are told the rest before the program goes on."""
    calls = [TraceCall(f"c{at}", says(Piece(f"p{at}", 30)), 5 + at, site="c") for at in range(2)]
    program = ProgramTrace("two", 0, tuple(calls), ("c0", "c1"))
    run((Arrival(0.0, program),), costs)
    assert watch.rests_s == [pytest.approx(service_of(program, costs.step)["c1"]), 0.0]


def test_a_prompt_is_prefilled_up_to_its_hole(costs: SimCosts) -> None:
    """The long head of a report is computed while a tool runs."""
    head = Piece("head", 500)
    tool = ToolUse("tool", 2.0, result_tokens=10, site="tool")

    def report(*after: str) -> TraceCall:
        prompt = says(head, TraceResult("tool", 10))
        return TraceCall("report", prompt, 4, site="report", after=after)

    saved_s = alone(costs, tool, report("tool")) - alone(costs, tool, report())
    pages = 500 // 16 * 16
    assert saved_s > pages * costs.step.prefill_s  # all of it, but for the page with the hole


def test_samples_that_are_not_needed_are_given_up(draw: Draw, costs: SimCosts) -> None:
    votes = tuple(one for one in draw(1, 40, 1.0) if one.program.shape == "vote")
    outcome = run(votes, costs)
    assert all(one.wasted_tokens > 0 for one in outcome.programs)


def test_programs_go_to_engines_in_turn(draw: Draw, costs: SimCosts) -> None:
    workload = draw(3, 24, 6.0)
    one, two = (run(workload, costs, engines=engines) for engines in (1, 2))
    assert len(two.engines) == 2
    assert all(totals.steps for totals in two.engines)
    assert sum(p.latency_s for p in two.programs) < sum(p.latency_s for p in one.programs)


def test_what_never_fits_is_an_error(costs: SimCosts) -> None:
    with pytest.raises(OutOfPages, match="KV pages"):
        alone(costs, TraceCall("a", says(Piece("p", 500)), 4, site="a"), kv_tokens=256)


def test_whoever_waits_makes_steps_longer(costs: SimCosts) -> None:
    """Two of three have to wait for a place: seven steps with two in line, seven with one."""
    calls = [TraceCall(f"c{at}", says(Piece(f"p{at}", 20)), 7, site="c") for at in range(3)]
    program = ProgramTrace("three", 0, tuple(calls), tuple(call.name for call in calls))
    slow = dataclasses.replace(costs, wait_s=1e-3)
    latency_s = [
        run((Arrival(0.0, program),), one, max_running=1).programs[0].latency_s
        for one in (costs, slow)
    ]
    assert latency_s[1] - latency_s[0] == pytest.approx(7 * 2e-3 + 7 * 1e-3)


def test_a_plan_is_waited_for_by_whoever_wants_its_tool(
    costs: SimCosts, watch: type[Watch]
) -> None:
    """Before the tool is declared, too: the plan does not run in what others leave."""
    plan = TraceCall("plan", says(Piece("p", 40)), 30, site="plan")
    tool = ToolUse("tool", 0.1, plan="plan", at_token=20, result_tokens=5, site="tool")
    alone(costs, plan, tool)
    told = watch.told
    first = next(one for one in told if isinstance(one, NodeDeclared) and one.kind == "generate")
    later = next(one for one in told if isinstance(one, NodeDeclared) and one.kind == "tool")
    between = told[told.index(first) : told.index(later)]
    wanted = [one.node_id for one in between if isinstance(one, NodeDemanded)]
    assert wanted == [first.node_id]


def test_a_form_may_write_beyond_what_a_tool_waits_for(costs: SimCosts) -> None:
    """Three of four tokens are forced: a step goes from 20 tokens to 24 at once."""
    plan = TraceCall("plan", says(Piece("p", 40)), 40, site="plan", forced_tokens=30)

    def with_tool(at_token: int) -> float:
        tool = ToolUse("tool", 1.0, plan="plan", at_token=at_token, result_tokens=5, site="tool")
        return alone(costs, plan, tool)

    assert with_tool(22) == with_tool(24) < with_tool(0)
