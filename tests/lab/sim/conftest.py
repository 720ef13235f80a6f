"""Small programs of several forms, and a small machine."""

from collections.abc import Callable
from random import Random

import pytest

from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.workloads import (
    Arrival,
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    TraceThink,
    Workload,
)
from agentrt.scheduler.estimates.step_model import StepTime

Draw = Callable[[int, int, float], Workload]


@pytest.fixture
def costs() -> SimCosts:
    """Of a small machine: a step of eight takes about 30 ms."""
    step = StepTime(base_s=0.02, prefill_s=1e-3, decode_s=1e-3, kv_s=1e-6)
    return SimCosts(step, pair_s=1e-8, submit_s=2e-4, deliver_s=1e-4, run_s=3e-4)


@pytest.fixture
def draw() -> Draw:
    """A workload from a seed: so many programs of mixed forms, so many a second."""
    return _draw


def _draw(seed: int, programs: int, rate: float) -> Workload:
    random = Random(seed)
    forms = (_loop, _fan, _vote, _chat)
    at_s = 0.0
    arrivals = []
    for serial in range(programs):
        at_s += random.expovariate(rate)
        arrivals.append(Arrival(at_s, random.choice(forms)(serial, random)))
    return tuple(arrivals)


def _loop(serial: int, random: Random) -> ProgramTrace:
    """Calls with tools between them; arguments are complete before the plan ends."""
    messages: list[Message] = [
        ("system", (Piece("loop system", 70),)),
        ("user", (Piece(f"question {serial}", random.randint(5, 30)),)),
    ]
    nodes: list[TraceCall | ToolUse] = []
    turns = random.randint(2, 5)
    for turn in range(turns):
        plan, tool = f"plan{turn}", f"tool{turn}"
        nodes.append(TraceCall(plan, tuple(messages), random.randint(12, 40), site="plan"))
        if turn < turns - 1:
            at_token = random.choice((0, 5, 12))
            nodes.append(
                ToolUse(
                    tool,
                    random.random(),
                    plan=plan,
                    at_token=at_token,
                    result_tokens=20,
                    site="tool",
                )
            )
            messages += [("assistant", (OutputOf(plan),)), ("user", (TraceResult(tool, 20),))]
    return ProgramTrace("loop", serial, tuple(nodes), (f"plan{turns - 1}",), tenant="one")


def _fan(serial: int, random: Random) -> ProgramTrace:
    """Parts of one text side by side, then one over all of them."""
    names = tuple(f"map{at}" for at in range(random.randint(2, 5)))
    text = Piece(f"text {serial}", random.randint(60, 200))
    maps = [
        TraceCall(
            name,
            (("user", (text, Piece(f"part {name}", 9))),),
            random.randint(5, 40),
            site="map",
            forced_tokens=random.choice((0, 4)),
        )
        for name in names
    ]
    quoted: Message = ("user", (Piece("reduce", 12), *(OutputOf(name) for name in names)))
    reduce = TraceCall("reduce", (quoted,), random.randint(10, 60), site="reduce")
    return ProgramTrace("fan", serial, (*maps, reduce), ("reduce",), tenant="two")


def _vote(serial: int, random: Random) -> ProgramTrace:
    """Like samples, of which the first few suffice."""
    prompt: tuple[Message, ...] = (
        ("user", (Piece("shots", 90), Piece(f"puzzle {serial}", random.randint(8, 25)))),
    )
    names = tuple(f"sample{at}" for at in range(5))
    calls = [TraceCall(name, prompt, random.randint(10, 90), site="sample") for name in names]
    return ProgramTrace("vote", serial, tuple(calls), names, quorum=(names, 3))


def _chat(serial: int, random: Random) -> ProgramTrace:
    """Two answers with a person between."""
    first: Message = ("user", (Piece(f"hello {serial}", random.randint(8, 40)),))
    return ProgramTrace(
        "chat",
        serial,
        (
            TraceCall("one", (first,), random.randint(10, 40), site="answer"),
            TraceThink("person", random.random() * 3, after=("one",)),
            TraceCall(
                "two",
                (first, ("assistant", (OutputOf("one"),)), ("user", (TraceResult("person", 15),))),
                random.randint(10, 40),
                site="answer",
            ),
        ),
        ("two",),
    )
