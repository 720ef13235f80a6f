"""Simulated programs hold chats, and engines are told of prefixes what follows from that."""

from collections.abc import Callable

import pytest

from agentrt.base.config import SchedulerConfig
from agentrt.engine.core import EngineCore
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import (
    Arrival,
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    Workload,
)
from agentrt.protocol.backend import KvHint, PrefixHint

Draw = Callable[[int, int, float], Workload]
Told = list[tuple[KvHint, int, int]]
TELLING = SchedulerConfig(policy="fcfs", gate_share=0, retention=True)
SILENT = SchedulerConfig(policy="fcfs", gate_share=0, retention=False)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Every hint that reaches an engine: what, how many tokens, from which on."""
    found: Told = []
    plain = EngineCore.hint

    def hint(core: EngineCore, hint: PrefixHint) -> None:
        found.append((hint.hint, len(hint.token_ids), hint.from_tokens))
        plain(core, hint)

    monkeypatch.setattr(EngineCore, "hint", hint)
    return found


def loop(serial: int, seconds: float = 1.0) -> Arrival:
    """A plan of 57 tokens over 103, a tool of a second, and a report that goes on from both."""
    first: Message = ("user", (Piece(f"question {serial}", 100),))
    plan = TraceCall("plan", (first,), 57, site="plan")
    tool = ToolUse("tool", seconds, plan="plan", result_tokens=10, site="tool")
    more: tuple[Message, ...] = (
        first,
        ("assistant", (OutputOf("plan"),)),
        ("user", (TraceResult("tool", 10),)),
    )
    report = TraceCall("report", more, 5, site="report", after=("tool",))
    return Arrival(0.0, ProgramTrace("loop", serial, (plan, tool, report), ("report",)))


def run(workload: Workload, costs: SimCosts, kv_tokens: int, **others: object) -> tuple[int, float]:
    """Tokens that were found in the cache, and seconds that all programs took together."""
    setup = Setup(costs, kv_tokens, max_running=12, **others)  # type: ignore[arg-type]
    programs = Simulation(setup).run(workload).programs
    return sum(one.cached_tokens for one in programs), sum(one.latency_s for one in programs)


def test_what_a_tool_is_waited_for_with_is_kept(told: Told, costs: SimCosts) -> None:
    """Prompt and plan, while the tool runs; all of it goes when the program is over."""
    run((loop(0),), costs, 192, scheduler=TELLING)
    assert told[0] == ("keep", 103 + 57, 0)
    assert [hint for hint, *_ in told[1:]] == ["drop"]
    assert told[-1][1:] == (103 + 57 + 1 + 12 + 5 + 1, 0)


def test_an_engine_with_room_is_told_nothing(told: Told, costs: SimCosts) -> None:
    run((loop(0),), costs, 16_384, scheduler=TELLING)
    assert told == []


@pytest.mark.parametrize("kv_tokens", [640, 1024])
def test_what_is_told_helps(kv_tokens: int, draw: Draw, costs: SimCosts) -> None:
    """With too little memory more is found in the cache, if not in every draw."""
    telling = silent = 0
    for seed in range(8):
        workload = draw(seed, 40, 2.0)
        telling += run(workload, costs, kv_tokens, scheduler=TELLING)[0]
        silent += run(workload, costs, kv_tokens, scheduler=SILENT)[0]
    assert telling > silent
