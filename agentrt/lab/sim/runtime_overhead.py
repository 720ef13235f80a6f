"""Measures the time of the runtime around its engine, by programs of little other work."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import astuple, dataclass, replace
from itertools import count, pairwise
from statistics import fmean, median
from time import monotonic, process_time
from typing import Any

import anyio

from agentrt.analysis import RunRecord, RunRecorder
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.lab.sim.costs import NO_COSTS, SimCosts
from agentrt.lab.workloads.text import KeySpeller, words_of
from agentrt.program import cfg, chat, gather, program, tool
from agentrt.protocol.step_output import Ledger
from agentrt.runtime import Runtime
from agentrt.scheduler import Estimates

_WAVES = 24
_WIDE = 16
_SHORT_OUTPUT = 2
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
async def _waves(serial: int, waves: int, wide: int, words: int, tokens: int) -> int:
    """Generations side by side, wave after wave, over text that is new to the codec."""
    for wave in range(waves):
        text = " ".join(f"{serial}w{wave}x{word}" for word in range(words))
        ask = chat().user(text)
        await gather(
            *(ask.user(f"{at}").generate(max_tokens=tokens, ignore_eos=True) for at in range(wide))
        )
    return waves


@tool(effects="read")
async def _nap(seconds: float) -> str:
    """Sleep."""
    await anyio.sleep(seconds)
    return ""


@program
async def _naps(count: int) -> int:
    """Tools one after the other, of different durations."""
    for at in range(count):
        await _nap(_TOOL_S * (1 + at / count))
    return count


@program
async def _formed(pattern: str) -> str:
    """Generations side by side: with a grammar or, if the pattern is "", of the same length."""
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
class _MeasuredRun:
    """A run that was measured.

    Attributes:
        due_at_s: Instant at which it was due.
        record: Record of the run.
        ended_at_s: Instant at which its caller had the result.
    """

    due_at_s: float
    record: RunRecord
    ended_at_s: float

    @property
    def ends(self) -> list[tuple[float, Ledger]]:
        """The instant of each generation's value, and its ledger."""
        nodes = self.record.leaves()
        return [(self.record.end_of(one), one.ledger) for one in nodes if one.ledger is not None]

    @property
    def declared_at_s(self) -> list[float]:
        """The instants at which its generations and tools were declared."""
        return [node.declared.at_s for node in self.record.leaves()]

    @property
    def prompt_tokens(self) -> float:
        """Median prompt length of its generations."""
        return median(ledger.prompt_tokens for _, ledger in self.ends)

    @property
    def value_at_s(self) -> float:
        """The instant of its last generation's value."""
        return max(at_s for at_s, _ in self.ends)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn between two waves, in seconds since the step that ended the first.

    Attributes:
        value_s: Arrival of the first value.
        declared_s: Declaration of the next wave's first generation.
        received_s: Arrival of the last request of the next wave at the engine.
    """

    value_s: float
    declared_s: float
    received_s: float


async def measure_overhead(config: EngineConfig) -> SimCosts:
    """Costs of the runtime on this machine; those of steps are 0."""
    records: list[RunRecord] = []
    serials = count()
    async with open_runtime(
        engine=config, models={}, observers=[RunRecorder(records.append)], estimates=Estimates()
    ) as runtime:

        async def waves(count: int, wide: int, words: int) -> _MeasuredRun:
            return await _run(
                records, runtime.run(_waves, next(serials), count, wide, words, _SHORT_OUTPUT)
            )

        async def busy_s(wide: int, tokens: int) -> float:
            """Seconds of CPU time, of all threads of this process."""
            before_s = process_time()
            await runtime.run(_waves, next(serials), 1, wide, 1, tokens)
            return process_time() - before_s

        await waves(2, _WIDE, _WORDS)  # warm-up
        short, long_ = await waves(_WAVES, 1, 1), await waves(_WAVES, 1, _WORDS)
        wide = _turn(await waves(_WAVES, _WIDE, 1), _WIDE)
        single = [await waves(1, 1, 1) for _ in range(_RUNS)]
        step_s = {
            rows: median(
                [
                    (await busy_s(rows, _LONG_OUTPUT) - await busy_s(rows, 1)) / (_LONG_OUTPUT - 1)
                    for _ in range(_TIMES)
                ]
            )
            for rows in (1, _WIDE)
        }
        naps = await _run(records, runtime.run(_naps, _TOOLS))
        found = await _forms(runtime, records, config)
    between_s = fmean(after - at_s for at_s, after in pairwise(naps.declared_at_s))
    alone, others = _turn(short, 1), _WIDE - 1
    close_s = max(0.0, wide.declared_s - alone.declared_s) / others
    calls_s = (wide.received_s - wide.declared_s) - (alone.received_s - alone.declared_s)
    call_s = max(0.0, calls_s) / others
    text_s = _turn(long_, 1).received_s - alone.received_s
    delta_s = max(0.0, step_s[_WIDE] - step_s[1]) / others
    return replace(
        found,
        submit_s=max(0.0, alone.received_s - alone.value_s - call_s),
        call_s=call_s,
        call_token_s=max(0.0, text_s) / max(1.0, long_.prompt_tokens - short.prompt_tokens),
        deliver_s=max(0.0, alone.value_s - close_s),
        tell_s=max(0.0, step_s[1] - delta_s),
        delta_s=delta_s,
        close_s=close_s,
        run_s=median(one.declared_at_s[0] - one.due_at_s for one in single),
        end_s=median(one.ended_at_s - one.value_at_s for one in single),
        tool_s=max(0.0, between_s - 1.5 * _TOOL_S),
    )


async def _run(records: list[RunRecord], run: Awaitable[Any]) -> _MeasuredRun:
    """Await a run that is due at a certain instant."""
    due_at_s = monotonic() + _DUE_S
    await anyio.sleep(max(0.0, due_at_s - monotonic()))
    await run
    ended_at_s = monotonic()
    return _MeasuredRun(due_at_s, records[-1], ended_at_s)


async def _forms(runtime: Runtime, records: list[RunRecord], config: EngineConfig) -> SimCosts:
    """Measure the time of a grammar in each step, and the share of forced tokens that take none."""
    try:
        spell = KeySpeller(words_of(config.model_path / "tokenizer.json"))
        pattern = spell.pattern("calibrate", _FORM_TOKENS, _FORM_GIVEN)
    except (UsageError, ValueError):  # an unknown vocabulary
        return NO_COSTS

    async def measured(pattern: str) -> _MeasuredRun:
        return await _run(records, runtime.run(_formed, pattern))

    await measured(pattern)
    formed, plain = [], []
    for _ in range(_RUNS):
        formed.append(await measured(pattern))
        plain.append(await measured(""))
    jumped = fmean(_FORM_TOKENS - ledger.steps for run in formed for _, ledger in run.ends)
    more_s = median(map(_decode_s, formed)) - median(map(_decode_s, plain))
    return replace(
        NO_COSTS,
        jump_share=min(1.0, max(0.0, jumped / _FORM_GIVEN)),
        form_s=max(0.0, more_s) / _FORMED,
    )


def _decode_s(run: _MeasuredRun) -> float:
    """Seconds of a decode step with all of its generations in the batch."""
    return median(ledger.decode_s / max(1, ledger.steps - 1) for _, ledger in run.ends)


def _turn(run: _MeasuredRun, wide: int) -> _Turn:
    """The median turn of a run in waves."""
    declared_at_s = run.declared_at_s
    ends = sorted(run.ends, key=lambda end: end[1].received_at_s)
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
    return _Turn(*map(median, zip(*map(astuple, found), strict=True)))
