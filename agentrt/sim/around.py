"""Measures what the runtime takes around its engine, by programs that do little else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from agentrt.app import open_runtime
from agentrt.config import EngineConfig
from agentrt.errors import InternalError
from agentrt.events import Event, NodeDeclared, NodeFinished, RequestSent, RunStarted
from agentrt.program import Program, chat, gather, program
from agentrt.runtime import Runtime
from agentrt.scheduler import Estimates
from agentrt.scheduler.step_model import StepTime
from agentrt.sim.costs import Costs
from agentrt.step import Ledger

_CHAIN = 30
_FAN = 16
_LONG_OUTPUT = 40
_WORDS = 60


@program
async def _chain(words: int) -> int:
    """Short generations one after the other, each over text of its own."""
    for turn in range(_CHAIN):
        text = " ".join(f"w{turn}x{word}" for word in range(words))
        await chat().user(text).generate(max_tokens=2, ignore_eos=True)
    return _CHAIN


@program
async def _fan(tokens: int) -> int:
    """Generations side by side."""
    ask = chat().user("x")
    options = range(_FAN)
    await gather(
        *(ask.user(f"{at}").generate(max_tokens=tokens, ignore_eos=True) for at in options)
    )
    return _FAN


async def around(config: EngineConfig) -> Costs:
    """Costs whose parts around the steps are measured; those of steps are nothing."""
    seen: list[Event] = []
    async with open_runtime(
        engine=config, observers=[_Seen(seen)], estimates=Estimates()
    ) as runtime:

        async def told(what: Program[[int], int], much: int) -> list[Event]:
            return await _run(runtime, seen, what, much)

        await told(_chain, 1)  # makes all paths warm
        short, long_ = await told(_chain, 1), await told(_chain, _WORDS)
        fan = await told(_fan, 1)
        before_s = time.process_time()
        many = await told(_fan, _LONG_OUTPUT)
        busy_s = time.process_time() - before_s
    sent_at_s = [event.at_s for event in fan if isinstance(event, RequestSent)]
    call_s = (max(sent_at_s) - min(sent_at_s)) / (len(sent_at_s) - 1)
    more_tokens = _prompt_tokens(long_) - _prompt_tokens(short)
    return Costs(
        StepTime(0.0, 0.0, 0.0, 0.0),
        submit_s=max(0.0, _gap_s(short) - call_s),
        call_s=call_s,
        call_token_s=max(0.0, _gap_s(long_) - _gap_s(short)) / max(1.0, more_tokens),
        deliver_s=max(0.0, median(at_s - one.finished_at_s for at_s, one in _ends(short))),
        delta_s=max(0.0, busy_s - _FAN * call_s) / sum(one.steps for _, one in _ends(many)),
        run_s=_begin_s(short),
    )


async def _run(
    runtime: Runtime, seen: list[Event], what: Program[[int], int], much: int
) -> list[Event]:
    seen.clear()
    await runtime.run(what, much)
    return list(seen)


def _ends(events: Sequence[Event]) -> list[tuple[float, Ledger]]:
    """When each generation's value was there, and its engine's account."""
    found = [
        (event.at_s, event.ledger)
        for event in events
        if isinstance(event, NodeFinished) and event.ledger is not None
    ]
    if len(found) < 2:
        raise InternalError("a run told of no generations")
    return found


def _gap_s(events: Sequence[Event]) -> float:
    """From a value to the next request's arrival at the engine, in a chain."""
    ends = _ends(events)
    pairs = pairwise(ends)
    return median(after.received_at_s - at_s for (at_s, _), (_, after) in pairs)


def _prompt_tokens(events: Sequence[Event]) -> float:
    return median(ledger.prompt_tokens for _, ledger in _ends(events))


def _begin_s(events: Sequence[Event]) -> float:
    """From a run's submission to its first generation."""
    started_s = next(event.at_s for event in events if isinstance(event, RunStarted))
    declared = (event for event in events if isinstance(event, NodeDeclared))
    first_s = next(event.at_s for event in declared if event.kind == "generate")
    return max(0.0, first_s - started_s)


class _Seen:
    """Keeps all events."""

    def __init__(self, into: list[Event]) -> None:
        self._into = into

    def see(self, events: Sequence[Event]) -> None:
        """Take them."""
        self._into.extend(events)
