"""Measures what the runtime takes around its engine, by programs that do little else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from time import monotonic, process_time

import anyio

from agentrt.app import open_runtime
from agentrt.config import EngineConfig
from agentrt.errors import InternalError, UsageError
from agentrt.events import Event, NodeDeclared, NodeFinished, RequestSent
from agentrt.program import Program, cfg, chat, gather, program, tool
from agentrt.runtime import Runtime
from agentrt.scheduler import Estimates
from agentrt.scheduler.step_model import StepTime
from agentrt.sim.costs import Costs
from agentrt.step import Ledger
from agentrt.workloads.text import Speller, words_of

_CHAIN = 30
_FAN = 16
_LONG_OUTPUT = 40
_WORDS = 60
_TOOLS = 40
_TOOL_S = 0.0031
_RUNS = 15
_DUE_S = 0.0077
_FORMED = 8
_FORM_TOKENS = 24
_FORM_GIVEN = 12


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


@tool(effects="read")
async def _nap(seconds: float) -> str:
    """Take that long."""
    await anyio.sleep(seconds)
    return ""


@program
async def _naps(count: int) -> int:
    """Tools one after the other, of unlike lengths."""
    for at in range(count):
        await _nap(_TOOL_S * (1 + at / count))
    return count


@program
async def _formed(pattern: str) -> str:
    """Generations side by side, under a grammar or, where the pattern is "", of the same length."""
    ask = chat().user("form")
    if pattern:
        form = cfg(f"start: /{pattern}/")
        found = [ask.user(f"{at}").generate(form, max_tokens=_FORM_TOKENS) for at in range(_FORMED)]
    else:
        found = [
            ask.user(f"{at}").generate(max_tokens=_FORM_TOKENS, ignore_eos=True)
            for at in range(_FORMED)
        ]
    await gather(*found)
    return pattern


@dataclass(frozen=True, slots=True)
class _Told:
    """What became of a run: when it was due, what it told, when its result was there."""

    due_at_s: float
    events: Sequence[Event]
    ended_at_s: float

    @property
    def ends(self) -> list[tuple[float, Ledger]]:
        """When each generation's value was there, and its engine's account."""
        found = [
            (event.at_s, event.ledger)
            for event in self.events
            if isinstance(event, NodeFinished) and event.ledger is not None
        ]
        if len(found) < 2:
            raise InternalError("a run told of no generations")
        return found

    @property
    def declared_at_s(self) -> list[float]:
        """When its generations and tools were."""
        declared = (event for event in self.events if isinstance(event, NodeDeclared))
        return [event.at_s for event in declared if event.kind != "program"]

    @property
    def gap_s(self) -> float:
        """From a value to the next request's arrival at the engine, in a chain."""
        pairs = pairwise(self.ends)
        return median(after.received_at_s - at_s for (at_s, _), (_, after) in pairs)

    @property
    def prompt_tokens(self) -> float:
        """Of its generations."""
        return median(ledger.prompt_tokens for _, ledger in self.ends)

    @property
    def value_at_s(self) -> float:
        """When its last generation's value was there."""
        return max(at_s for at_s, _ in self.ends)


async def around(config: EngineConfig) -> Costs:
    """Costs whose parts around the steps are measured; those of steps are nothing."""
    seen: list[Event] = []
    async with open_runtime(
        engine=config, observers=[_Seen(seen)], estimates=Estimates()
    ) as runtime:

        async def told(what: Program[[int], int], much: int) -> _Told:
            return await _run(runtime, seen, lambda run: run.run(what, much))

        await told(_chain, 1)  # makes all paths warm
        short, long_ = await told(_chain, 1), await told(_chain, _WORDS)
        await told(_fan, 1)
        fans = [await told(_fan, 1) for _ in range(_RUNS)]
        before_s = process_time()
        many = await told(_fan, _LONG_OUTPUT)
        busy_s = process_time() - before_s
        naps = await told(_naps, _TOOLS)
        found = await _forms(runtime, seen, config)
    call_s = median(_call_s(fan) for fan in fans)
    close_s = median(_close_s(fan) for fan in fans)
    more_tokens = long_.prompt_tokens - short.prompt_tokens
    tells = sum(ledger.steps for _, ledger in many.ends)
    return replace(
        found,
        submit_s=max(0.0, short.gap_s - call_s),
        call_s=call_s,
        call_token_s=max(0.0, long_.gap_s - short.gap_s) / max(1.0, more_tokens),
        deliver_s=max(0.0, median(at_s - one.finished_at_s for at_s, one in short.ends)),
        delta_s=max(0.0, busy_s - _FAN * (call_s + close_s)) / tells,
        close_s=close_s,
        run_s=median(fan.declared_at_s[0] - fan.due_at_s for fan in fans),
        end_s=median(fan.ended_at_s - fan.value_at_s for fan in fans),
        tool_s=max(0.0, _between_s(naps) - 1.5 * _TOOL_S),
    )


async def _run(
    runtime: Runtime, seen: list[Event], begin: Callable[[Runtime], Awaitable[object]]
) -> _Told:
    """A run that is due at an instant, as one is that somebody wants at a certain time."""
    seen.clear()
    due_at_s = monotonic() + _DUE_S
    await anyio.sleep(due_at_s - monotonic())
    await begin(runtime)
    ended_at_s = monotonic()
    return _Told(due_at_s, list(seen), ended_at_s)


async def _forms(runtime: Runtime, seen: list[Event], config: EngineConfig) -> Costs:
    """What a grammar takes of each step, and the share of given tokens that it saves."""
    free = Costs(StepTime(0.0, 0.0, 0.0, 0.0))
    try:
        spell = Speller(words_of(config.model_path / "tokenizer.json"))
        pattern = spell.pattern("calibrate", _FORM_TOKENS, _FORM_GIVEN)
    except (UsageError, ValueError):  # a vocabulary of which nothing is known
        return free

    async def told(pattern: str) -> _Told:
        return await _run(runtime, seen, lambda run: run.run(_formed, pattern))

    await told(pattern)
    formed, plain = [], []
    for _ in range(_RUNS):
        formed.append(await told(pattern))
        plain.append(await told(""))
    jumped = fmean(_FORM_TOKENS - ledger.steps for run in formed for _, ledger in run.ends)
    more_s = median(map(_decode_s, formed)) - median(map(_decode_s, plain))
    return replace(
        free,
        jump_share=min(1.0, max(0.0, jumped / _FORM_GIVEN)),
        form_s=max(0.0, more_s) / _FORMED,
    )


def _decode_s(told: _Told) -> float:
    """Of one step, while all of its generations decoded side by side."""
    return median(ledger.decode_s / max(1, ledger.steps - 1) for _, ledger in told.ends)


def _call_s(fan: _Told) -> float:
    """From the first declaration to the last request, for each."""
    sent_at_s = [event.at_s for event in fan.events if isinstance(event, RequestSent)]
    return (max(sent_at_s) - fan.declared_at_s[0]) / len(sent_at_s)


def _close_s(fan: _Told) -> float:
    """Between values that came with one step, for each."""
    ends = sorted((ledger.finished_at_s, at_s) for at_s, ledger in fan.ends)
    last_s = ends[-1][0]
    together = [at_s for finished_s, at_s in ends if finished_s == last_s]
    return (max(together) - min(together)) / max(1, len(together) - 1)


def _between_s(naps: _Told) -> float:
    """From one declaration to the next."""
    return fmean(after - at_s for at_s, after in pairwise(naps.declared_at_s))


class _Seen:
    """Keeps all events."""

    def __init__(self, into: list[Event]) -> None:
        self._into = into

    def see(self, events: Sequence[Event]) -> None:
        """Take them."""
        self._into.extend(events)
