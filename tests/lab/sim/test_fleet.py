"""Fleets by rates: against the step mode, and on their own terms."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.sim.arms import PLAIN
from agentrt.lab.sim.costs import EIGHT_B_ON_H200, HALF_ON_TWO_CORES
from agentrt.lab.sim.fluid.compare import compare
from agentrt.lab.sim.fluid.fleet import Fleet, FleetOutcome
from agentrt.lab.sim.fluid.gate import FleetGate
from agentrt.lab.sim.fluid.library import ProgramLibrary, library_of
from agentrt.lab.sim.fluid.routing import Router, Routing, routing_named
from agentrt.lab.sim.fluid.tasks import before_in_group
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.workloads import Message, OutputOf, Piece, ProgramTrace, ToolUse, TraceCall
from agentrt.lab.workloads.mixes import mix
from agentrt.lab.workloads.scale import Scale

SMALL = Scale(0.125, 0.125, 0.125, 0.5, 0.01)


@pytest.fixture(scope="module")
def traces() -> tuple[ProgramTrace, ...]:
    return mix(60, Random(3), SMALL)


@pytest.fixture(scope="module")
def library(traces: tuple[ProgramTrace, ...]) -> ProgramLibrary:
    return library_of(traces)


def serve(
    library: ProgramLibrary,
    *,
    engines: int = 4,
    programs: int = 400,
    rate: float = 1.5,
    kv_tokens: int = 20_000,
    routing: Routing = "program-two-choices",
    gate_share: float = 0.0,
) -> FleetOutcome:
    random = np.random.default_rng(0)
    arrived_s = np.cumsum(random.exponential(1 / rate, programs))
    program = random.integers(library.programs, size=programs)
    scheduler = replace(PLAIN, gate_share=gate_share)
    setup = Setup(HALF_ON_TWO_CORES, kv_tokens, engines=engines, scheduler=scheduler)
    return Fleet(setup, library, routing).run(arrived_s, program)


def test_rates_give_what_steps_give(traces: tuple[ProgramTrace, ...]) -> None:
    """Two engines, lightly used to overloaded: the mean within a twentieth.

    A prompt that comes while others are computed waits for their step to end. It must neither join
    them nor make them slower: else rates are 14 % too slow where engines are overloaded.
    """
    setup = Setup(HALF_ON_TWO_CORES, 16_384, engines=2, scheduler=PLAIN)
    light, heavy, over = compare(setup, traces, (0.4, 0.8, 1.2))
    assert abs(light.mean_error) < 0.05
    assert abs(heavy.mean_error) < 0.05
    assert abs(over.mean_error) < 0.05
    assert abs(light.error(0.5)) < 0.10
    assert abs(over.error(0.5)) < 0.10


def test_a_lone_program_takes_what_its_steps_take() -> None:
    call = TraceCall("a", (("user", (Piece("p", 100),)),), 50, site="a")
    program = ProgramTrace("one", 0, (call,), ("a",))
    (found,) = compare(Setup(EIGHT_B_ON_H200, 4096, scheduler=PLAIN), [program] * 1, (1.0,))
    assert abs(found.mean_error) < 0.03


def test_every_program_ends_and_work_is_kept(library: ProgramLibrary) -> None:
    outcome = serve(library)
    assert np.isfinite(outcome.latency_s).all()
    assert (outcome.latency_s > 0).all()
    random = np.random.default_rng(0)
    random.exponential(1, 400)
    program = random.integers(library.programs, size=400)
    # What a quorum gives up is not put out.
    most = library.service_tokens[program].sum()
    assert 0.8 * most < outcome.output_tokens <= most
    assert outcome.again_tokens == 0


def test_a_seed_decides_everything(library: ProgramLibrary) -> None:
    assert serve(library).latency_s.tolist() == serve(library).latency_s.tolist()


def test_more_engines_are_faster(library: ProgramLibrary) -> None:
    assert serve(library, engines=8).latency_s.mean() < serve(library, engines=3).latency_s.mean()


def test_too_little_memory_computes_again(library: ProgramLibrary) -> None:
    tight = serve(library, kv_tokens=600)
    assert tight.again_tokens > 0
    assert tight.latency_s.mean() > serve(library).latency_s.mean()


def test_a_program_that_stays_finds_its_contexts(library: ProgramLibrary) -> None:
    """Requests that go anywhere lose what their program has computed elsewhere."""
    stays, roams = (
        serve(library, routing=routing)
        for routing in ("program-two-choices", "request-two-choices")
    )
    assert stays.prompt_tokens < 0.8 * roams.prompt_tokens
    assert stays.latency_s.mean() < roams.latency_s.mean()


def test_a_gate_holds_programs_back(library: ProgramLibrary) -> None:
    gated = serve(library, kv_tokens=1500, gate_share=0.8, rate=3.0)
    assert np.isfinite(gated.latency_s).all()
    assert gated.held_s.max() > 0
    assert serve(library, kv_tokens=1500, rate=3.0).held_s.max() == 0


def test_a_gate_serves_small_ones_first() -> None:
    for order, first in (("fcfs", [1]), ("rwa", [2])):
        gate = FleetGate(1, 100.0, "rwa" if order == "rwa" else "fcfs")
        here = np.zeros(1, dtype=np.int64)
        gate.come(here, here, np.array([90.0]), np.array([1.0]), np.array([0.0]))
        assert gate.let_in(here, 0.0).tolist() == [0]
        both = np.zeros(2, dtype=np.int64)
        gate.come(np.array([1, 2]), both, np.array([90.0, 90.0]), np.array([9.0, 1.0]), np.zeros(2))
        assert gate.let_in(here, 1.0).tolist() == []
        gate.left(here, np.array([90.0]))
        assert gate.let_in(here, 2.0).tolist() == first


def test_a_quorum_ends_a_program() -> None:
    """Of five samples the second to end is enough."""
    prompt: tuple[Message, ...] = (("user", (Piece("p", 20),)),)
    names = tuple(f"s{at}" for at in range(5))
    calls = tuple(TraceCall(name, prompt, 10 * (at + 1), site="s") for at, name in enumerate(names))
    library = library_of([ProgramTrace("vote", 0, calls, (), quorum=(names, 2))])
    setup = Setup(HALF_ON_TWO_CORES, 10_000, scheduler=PLAIN)
    outcome = Fleet(setup, library).run(np.zeros(1), np.zeros(1, dtype=np.int64))
    step = HALF_ON_TWO_CORES.step
    twenty_s = 20 * (step.base_s + 4 * step.decode_s)
    assert outcome.latency_s[0] == pytest.approx(twenty_s, rel=0.25)


def test_a_library_knows_what_is_new() -> None:
    """What a program goes on from, and what others asked, need not be computed."""
    head, own = Piece("head", 160), Piece("own", 48)
    first: Message = ("user", (head, own))
    plan = TraceCall("plan", (first,), 32, site="plan")
    tool = ToolUse("tool", 1.0, plan="plan", at_token=8, result_tokens=5, site="tool")
    more: tuple[Message, ...] = (first, ("assistant", (OutputOf("plan"),)), ("user", (own,)))
    report = TraceCall("report", more, 10, site="report", after=("tool",))
    library = library_of(
        [
            ProgramTrace("two", 0, (plan, tool, report), ("report",)),
            ProgramTrace("other", 1, (TraceCall("a", (("user", (head,)),), 4, site="a"),), ("a",)),
        ]
    )
    assert library.is_call.tolist() == [True, False, True, True]
    assert library.lead_tokens[1] == 24
    assert library.prompt_tokens[0] < 160 + 48 + 8
    assert library.fresh_tokens[2] < 48 + 32  # the plan's prompt and most of its output are there
    assert library.fresh_tokens[3] < 32  # the head was asked by the other program
    assert library.waits_for.tolist() == [0, 1, 2, 0]


def test_engines_are_chosen() -> None:
    load = np.array([5, 0, 3])
    assert Router("round-robin", 3, 0).choose(4, load).tolist() == [0, 1, 2, 0]
    assert Router("least-loaded", 3, 0).choose(4, load).tolist() == [1, 1, 1, 1]
    chosen = Router("two-choices", 3, 0).choose(200, np.zeros(3, dtype=np.int64))
    assert np.ptp(np.bincount(chosen)) < 20
    assert routing_named("request-least-loaded") == (False, "least-loaded")
    with pytest.raises(UsageError, match="there is no routing 'random'"):
        routing_named("random")


def test_sums_before() -> None:
    group = np.array([0, 0, 2, 2, 2])
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert before_in_group(group, values).tolist() == [0, 1, 0, 3, 7]
