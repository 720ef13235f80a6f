"""Measures what steps and the runtime around them take: a sweep through a real engine.

The engine runs as it does in production, in its own process. Prompts are random, so that nothing
is found in the cache; points are taken in a shuffled order, round after round, so that what
disturbs the machine disturbs all alike.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from statistics import median
from typing import Any

import numpy as np

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError, revive
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.fit import Fitted, ObservedSteps, fit
from agentrt.lab.sim.runtime_overhead import around
from agentrt.lab.sim.step_log import StepLog
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import StepDone, StepRecord

BATCHES = (1, 2, 4, 8, 16, 32)
PROMPTS = (16, 64, 256, 512, 1024, 2048)
NEW_TOKENS = 12
_AROUND_PAGES = 1024
_LINE = 72
"""Requests before an engine with room for a few of them."""
_LINE_PROMPT_TOKENS = 16
_LINE_PAGES = 30
_LINE_TIMES = 3
Gap = tuple[int, float]
"""How many sequences a step told of, and the seconds until the next step began."""

_ODD = 2.0
"""Steps that took so many times what the others say were disturbed, or did something else too."""


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """Requests that are sent together.

    Attributes:
        batch: How many.
        prompt_tokens: Of each.
    """

    batch: int
    prompt_tokens: int


def points_of(window_tokens: int, kv_tokens: int, most_running: int) -> list[CalibrationPoint]:
    """Every combination that an engine has room for.

    Raises:
        UsageError: There are too few to tell anything.
    """
    found = [
        CalibrationPoint(batch, prompt)
        for batch in BATCHES
        for prompt in PROMPTS
        if batch <= most_running
        and prompt + NEW_TOKENS <= (window_tokens or prompt + NEW_TOKENS)
        and batch * (prompt + NEW_TOKENS + 16) <= kv_tokens
        and batch * prompt <= 16_384
    ]
    if len({one.batch for one in found}) < 2 or len({one.prompt_tokens for one in found}) < 2:
        raise UsageError(
            f"{kv_tokens} tokens of KV memory are too few for a sweep",
            hint="Give the engine more: --kv-tokens 8192",
        )
    return found


async def calibrate(
    config: EngineConfig,
    *,
    seconds: float = 60.0,
    kv_tokens: int = 32_768,
    seed: int = 0,
    about: dict[str, Any] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> SimCosts:
    """The costs of an engine and of the runtime before it, on this machine.

    Args:
        config: Of the engine; its KV memory and policy are set here.
        seconds: To go on for; each point is measured at least once.
        kv_tokens: KV memory to give it.
        seed: Of prompts and of the order of points.
        about: More about where this was measured.
        tell: Called with what is being done.
    """
    config = replace(config, kv_pages=kv_tokens // config.page_tokens, policy="fcfs")
    async with _Engine(config, seed) as engine:
        window_tokens = engine.backend.capabilities.window_tokens
        points = points_of(window_tokens, kv_tokens, config.max_running)
        random = Random(seed)
        observed: list[ObservedSteps] = []
        gaps: list[Gap] = []
        began_s = time.monotonic()
        rounds = 0
        while rounds == 0 or time.monotonic() - began_s < seconds:
            for point in random.sample(points, len(points)):
                if rounds and time.monotonic() - began_s >= seconds:
                    break
                observed += await engine.measure(point, gaps)
            rounds += 1
            tell(f"round {rounds}: {len(observed)} samples")
    found = fit_without_odd(alike(observed))
    gap_s, gap_row_s = line_through(gaps)
    wait_s = await _wait_s(replace(config, kv_pages=_LINE_PAGES), found, seed)
    beside = await around(replace(config, kv_pages=max(config.kv_pages, _AROUND_PAGES)))
    facts = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": config.model_path.name,
        "points": len(points),
        "rounds": rounds,
        "samples": len(observed),
        "unlike_samples": found.observations,
        "measured_by_computed": found.residuals,
        **(about or {}),
    }
    return replace(
        beside,
        step=found.step,
        pair_s=found.pair_s,
        wait_s=wait_s,
        gap_s=gap_s,
        gap_row_s=gap_row_s,
        about=facts,
    )


def alike(observed: Sequence[ObservedSteps]) -> list[ObservedSteps]:
    """Of the steps that computed the same, one that took as long as half of them."""
    found: dict[tuple[int, StepWork], list[float]] = {}
    for one in observed:
        found.setdefault((one.steps, one.work), []).append(one.took_s)
    return [ObservedSteps(steps, work, median(took)) for (steps, work), took in found.items()]


def line_through(gaps: Sequence[Gap]) -> tuple[float, float]:
    """Seconds between steps, and more for each sequence, from medians by the number of those."""
    steps = [
        ObservedSteps(1, StepWork(0, sequences, 0, 0.0), gap_s)
        for sequences, gap_s in _medians(gaps).items()
    ]
    if len(steps) < 2:
        return (steps[0].took_s if steps else 0.0), 0.0
    step = fit(steps).step
    return step.base_s, step.decode_s


async def _wait_s(config: EngineConfig, found: Fitted, seed: int) -> float:
    """What a step takes longer for each request that waits, where memory is short."""
    costs = SimCosts(found.step, found.pair_s)
    async with _Engine(config, seed) as engine:
        records = [one for _ in range(_LINE_TIMES) for one in await engine.line_up()]
    return slope_of([(one.waiting, _took_s(one) - costs.of(_work_of(one))) for one in records])


def _work_of(record: StepRecord) -> StepWork:
    """As it is told; prompts are short, and whole in a step."""
    tokens = record.prefill_tokens
    pairs = tokens * _LINE_PROMPT_TOKENS / 2
    return StepWork(tokens, record.decode_tokens, record.kv_tokens, pairs)


def _took_s(record: StepRecord) -> float:
    return record.ended_at_s - record.started_at_s


def slope_of(more: Sequence[tuple[int, float]]) -> float:
    """Seconds that each of those that waited adds, from medians by their number; 0 or more."""
    medians = _medians(more)
    if len(medians) < 2:
        return 0.0
    return max(0.0, float(np.polyfit(list(medians), list(medians.values()), 1)[0]))


def _medians(told: Sequence[tuple[int, float]]) -> dict[int, float]:
    """The middle of what was told of each number."""
    found: dict[int, list[float]] = {}
    for number, seconds in told:
        found.setdefault(number, []).append(seconds)
    return {number: median(all_) for number, all_ in found.items()}


def fit_without_odd(observed: Sequence[ObservedSteps]) -> Fitted:
    """A fit, and another without what is twice off by the first."""
    first = fit(observed)
    costs = SimCosts(first.step, first.pair_s)
    kept = []
    for one in observed:
        alike = costs.of(one.work) - first.step.base_s + one.steps * first.step.base_s
        if 1 / _ODD < one.took_s / max(alike, 1e-12) < _ODD:
            kept.append(one)
    return fit(kept) if len(kept) > len(observed) // 2 else first


class _Engine:
    """A real engine in its process, driven through its contract."""

    def __init__(self, config: EngineConfig, seed: int) -> None:
        self._config = config
        self._random = Random(seed)
        self._serial = 0
        self._ids = range(0, 0)
        self.backend = EmbeddedBackend(config, MonotonicClock())

    async def __aenter__(self) -> _Engine:
        self.backend.launch()
        try:
            size = Codec.load(self._config.model_path).vocab.size
            self._ids = range(size // 2, size)
            await self.backend.start()
        except BaseException:
            await self.backend.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.backend.aclose()

    async def line_up(self) -> list[StepRecord]:
        """The steps of many more requests than fit, of unlike lengths."""
        for at in range(_LINE):
            self._submit(_LINE_PROMPT_TOKENS, 4 + at % 21)
        return [step async for step in self._steps(_LINE)]

    async def measure(self, point: CalibrationPoint, gaps: list[Gap]) -> list[ObservedSteps]:
        """The steps of one point: those with prompt tokens one by one, the others together.

        Args:
            point: Which.
            gaps: Between its steps; they are added.
        """
        tokens = point.prompt_tokens
        prompts = {self._submit(tokens, NEW_TOKENS): tokens for _ in range(point.batch)}
        log = StepLog(prompts, self._config.prefill_chunk_tokens, self._config.step_tokens)
        found: list[ObservedSteps] = []
        decodes: list[tuple[StepWork, float]] = []
        before: StepRecord | None = None
        async for step in self._steps(len(prompts)):
            work, took_s = log.work_of(step), _took_s(step)
            if before is not None:
                gaps.append((len(before.requests), step.started_at_s - before.ended_at_s))
            before = step
            if work.prefill_tokens:
                found.append(ObservedSteps(1, work, took_s))
            else:
                decodes.append((work, took_s))
        whole = [one for one in decodes if one[0].decode_tokens == point.batch]
        if whole:
            kv_tokens = sum(work.kv_tokens for work, _ in whole) // len(whole)
            took_s = median(took_s for _, took_s in whole)
            found.append(ObservedSteps(1, StepWork(0, point.batch, kv_tokens, 0.0), took_s))
        return found

    def _submit(self, prompt_tokens: int, new_tokens: int) -> RequestId:
        self._serial += 1
        ids = tuple(self._random.choices(self._ids, k=prompt_tokens))
        request = GenerateRequest(
            RequestId(self._serial),
            RunId("calibrate"),
            NodeId(f"n{self._serial}"),
            "calibrate",
            TokenPrompt(ids),
            SamplingParams(max_tokens=new_tokens, ignore_eos=True),
        )
        self.backend.submit(request)
        return request.request_id

    async def _steps(self, open_: int) -> AsyncIterator[StepRecord]:
        """Until so many requests have ended."""
        async for event in self.backend.events():
            if not isinstance(event, StepDone):
                raise revive(event.error)
            for end in event.ends:
                if end.error is not None:
                    raise revive(end.error)
            open_ -= len(event.ends)
            if event.step is not None:
                yield event.step
            if open_ == 0:
                return
