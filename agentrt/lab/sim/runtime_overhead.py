"""Measures what the runtime takes around its engine, by programs that do little else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from statistics import fmean, median
from time import monotonic, process_time

import anyio

from agentrt.analysis import RunRecord, RunRecorder
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.base.errors import InternalError, UsageError
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.workloads.text import KeySpeller, words_of
from agentrt.program import cfg, chat, gather, program, tool
from agentrt.protocol.events import Event, NodeDeclared, NodeFinished
from agentrt.protocol.step_output import Ledger
from agentrt.runtime import Runtime
from agentrt.scheduler import Estimates
from agentrt.scheduler.estimates.step_model import StepTime

_WAVES = 24
_WIDE = 16
_LONG_OUTPUT = 40
_WORDS = 60
_TOOLS = 40
_TOOL_S = 0.0031
_RUNS = 15
_TIMES = 5
_DUE_S = 0.0077
_FORMED = 8
_FORM_TOKENS = 24
_FORM_GIVEN = 12


@program
async def _waves(serial: int, waves: int, wide: int, words: int) -> int:
    """Short generations side by side, wave after wave, over text that is new to the codec."""
    for wave in range(waves):
        text = " ".join(f"{serial}w{wave}x{word}" for word in range(words))
        ask = chat().user(text)
        await gather(
            *(ask.user(f"{at}").generate(max_tokens=2, ignore_eos=True) for at in range(wide))
        )
    return waves


@program
async def _long(serial: int, wide: int, tokens: int) -> int:
    """Generations side by side."""
    ask = chat().user(f"long {serial}")
    await gather(
        *(ask.user(f"{at}").generate(max_tokens=tokens, ignore_eos=True) for at in range(wide))
    )
    return wide


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
    """A measured run: when it was due, its events, when its result was there."""

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
        if not found:
            raise InternalError("a run told of no generations")
        return found

    @property
    def declared_at_s(self) -> list[float]:
        """When its generations and tools were."""
        declared = (event for event in self.events if isinstance(event, NodeDeclared))
        return [event.at_s for event in declared if event.kind != "program"]

    @property
    def prompt_tokens(self) -> float:
        """Median prompt length of its generations."""
        return median(ledger.prompt_tokens for _, ledger in self.ends)

    @property
    def value_at_s(self) -> float:
        """When its last generation's value was there."""
        return max(at_s for at_s, _ in self.ends)


@dataclass(frozen=True, slots=True)
class _Turn:
    """From a step that ends a wave of generations to the next wave; seconds since that step.

    Attributes:
        value_s: Until the first value was there.
        declared_s: Until the next wave's first generation was declared.
        received_s: Until the engine had the whole of the next wave.
    """

    value_s: float
    declared_s: float
    received_s: float


async def around(config: EngineConfig) -> SimCosts:
    """Costs whose parts around the steps are measured; those of steps are nothing."""
    seen: list[Event] = []
    serials = count()
    async with open_runtime(
        engine=config, observers=[_Seen(seen), RunRecorder(_no_more)], estimates=Estimates()
    ) as runtime:

        async def told(waves: int, wide: int, words: int) -> _Told:
            return await _run(
                runtime, seen, lambda run: run.run(_waves, next(serials), waves, wide, words)
            )

        async def busy_s(wide: int, tokens: int) -> float:
            """Seconds of CPU time, of all threads of this process."""
            before_s = process_time()
            await runtime.run(_long, next(serials), wide, tokens)
            return process_time() - before_s

        await told(2, _WIDE, _WORDS)  # makes all paths warm
        short, long_ = await told(_WAVES, 1, 1), await told(_WAVES, 1, _WORDS)
        wide = _turn(await told(_WAVES, _WIDE, 1), _WIDE)
        single = [await told(1, 1, 1) for _ in range(_RUNS)]
        step_s = {
            rows: median(
                [
                    (await busy_s(rows, _LONG_OUTPUT) - await busy_s(rows, 1)) / (_LONG_OUTPUT - 1)
                    for _ in range(_TIMES)
                ]
            )
            for rows in (1, _WIDE)
        }
        naps = await _run(runtime, seen, lambda run: run.run(_naps, _TOOLS))
        found = await _forms(runtime, seen, config)
    alone, others = _turn(short, 1), _WIDE - 1
    close_s = max(0.0, wide.declared_s - alone.declared_s) / others
    calls_s = (wide.received_s - wide.declared_s) - (alone.received_s - alone.declared_s)
    call_s = max(0.0, calls_s) / others
    spelled = _turn(long_, 1).received_s - alone.received_s
    delta_s = max(0.0, step_s[_WIDE] - step_s[1]) / others
    return replace(
        found,
        submit_s=max(0.0, alone.received_s - alone.value_s - call_s),
        call_s=call_s,
        call_token_s=max(0.0, spelled) / max(1.0, long_.prompt_tokens - short.prompt_tokens),
        deliver_s=max(0.0, alone.value_s - close_s),
        tell_s=max(0.0, step_s[1] - delta_s),
        delta_s=delta_s,
        close_s=close_s,
        run_s=median(one.declared_at_s[0] - one.due_at_s for one in single),
        end_s=median(one.ended_at_s - one.value_at_s for one in single),
        tool_s=max(0.0, _between_s(naps) - 1.5 * _TOOL_S),
    )


async def _run(
    runtime: Runtime, seen: list[Event], begin: Callable[[Runtime], Awaitable[object]]
) -> _Told:
    """Run a program that is due at a certain instant."""
    seen.clear()
    due_at_s = monotonic() + _DUE_S
    await anyio.sleep(max(0.0, due_at_s - monotonic()))
    await begin(runtime)
    ended_at_s = monotonic()
    return _Told(due_at_s, list(seen), ended_at_s)


async def _forms(runtime: Runtime, seen: list[Event], config: EngineConfig) -> SimCosts:
    """Measure the time of a grammar in each step, and the share of forced tokens that it saves."""
    free = SimCosts(StepTime(0.0, 0.0, 0.0, 0.0))
    try:
        spell = KeySpeller(words_of(config.model_path / "tokenizer.json"))
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
    """Seconds of a step while all of its generations decoded side by side."""
    return median(ledger.decode_s / max(1, ledger.steps - 1) for _, ledger in told.ends)


def _turn(told: _Told, wide: int) -> _Turn:
    """The middle one, of a run in waves."""
    declared_at_s = told.declared_at_s
    ends = sorted(told.ends, key=lambda end: end[1].received_at_s)
    found: list[_Turn] = []
    for at in range(wide, len(ends) - wide + 1, wide):
        before, wave = ends[at - wide : at], ends[at : at + wide]
        finished_s = max(ledger.finished_at_s for _, ledger in before)
        last = [at_s for at_s, ledger in before if ledger.finished_at_s == finished_s]
        found.append(
            _Turn(
                min(last) - finished_s,
                declared_at_s[at] - finished_s,
                max(ledger.received_at_s for _, ledger in wave) - finished_s,
            )
        )
    return _Turn(
        median(one.value_s for one in found),
        median(one.declared_s for one in found),
        median(one.received_s for one in found),
    )


def _between_s(naps: _Told) -> float:
    """From one declaration to the next."""
    return fmean(after - at_s for at_s, after in pairwise(naps.declared_at_s))


class _Seen:
    """Keeps all events."""

    def __init__(self, into: list[Event]) -> None:
        self._into = into

    def on_events(self, events: Sequence[Event]) -> None:
        """Take them."""
        self._into.extend(events)


def _no_more(record: RunRecord) -> None:
    """Records are made as those of `agentrt run` are, and dropped."""
