"""Measures the time of steps and of the runtime around them, by a sweep through a real engine.

Prompts are random, so that few tokens are found in the cache. Points are measured in a shuffled
order, round after round, so that disturbances of the machine affect all of them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from statistics import median
from typing import Any, TypeVar

import numpy as np

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.pace import time_text
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.fit import Fitted, ObservedSteps, fit
from agentrt.lab.sim.measured_engine import MeasuredEngine, open_engine
from agentrt.lab.sim.runtime_overhead import measure_overhead
from agentrt.lab.sim.step_log import StepLog
from agentrt.protocol.step_output import StepRecord

BATCHES = (1, 2, 4, 8, 16, 32)
PROMPTS = (16, 64, 256, 512, 1024, 2048)
NEW_TOKENS = 12
_OVERHEAD_PAGES = 1024
_QUEUED = 72
"""Requests to an engine with memory for a few of them."""
_QUEUED_PROMPT_TOKENS = 16
_QUEUED_PAGES = 30
_QUEUED_ROUNDS = 3
Gap = tuple[int, float]
"""Sequences of a step, and seconds from its end to the beginning of the next."""

_OUTLIER = 2.0
"""Steps that took so many times the fitted time were disturbed, or contain other work."""

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """Requests that are sent together.

    Attributes:
        batch: Number of requests.
        prompt_tokens: Length of the prompt of each.
    """

    batch: int
    prompt_tokens: int


def points_of(window_tokens: int, kv_tokens: int, most_running: int) -> list[CalibrationPoint]:
    """All points that fit the engine.

    Raises:
        UsageError: There are too few for a fit.
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
    log: Callable[[str], None] = lambda text: None,
) -> SimCosts:
    """The costs of an engine and of the runtime around it, on this machine.

    Args:
        config: Settings of the engine; its KV memory and policy are set here.
        seconds: Duration of the sweep; each point is measured at least once.
        kv_tokens: KV memory of the engine.
        seed: Seed of the prompts and of the order of points.
        about: More facts about the measurement.
        log: Called with the progress.
    """
    config = config.sized()
    config = replace(config, kv_pages=kv_tokens // config.page_tokens, policy="fcfs")
    async with open_engine(config, seed) as engine:
        points = points_of(engine.capabilities.window_tokens, kv_tokens, config.max_running)
        random = Random(seed)
        observed: list[ObservedSteps] = []
        gaps: list[Gap] = []
        began_s = time.monotonic()
        rounds = 0
        while rounds == 0 or time.monotonic() - began_s < seconds:
            for point in random.sample(points, len(points)):
                if rounds and time.monotonic() - began_s >= seconds:
                    break
                observed += await _measure(engine, config, point, gaps)
            rounds += 1
            left_s = seconds - (time.monotonic() - began_s)
            left = f", about {time_text(left_s)} left" if left_s > 0 else ""
            log(f"round {rounds}: {len(observed)} samples{left}")
    found = fit_without_odd(alike(observed))
    gap_s, gap_row_s = line_through(gaps)
    wait_s = await _wait_s(replace(config, kv_pages=_QUEUED_PAGES), found, seed)
    pages = max(config.kv_pages, _OVERHEAD_PAGES)
    overhead = await measure_overhead(replace(config, kv_pages=pages))
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
        overhead,
        step=found.step,
        pair_s=found.pair_s,
        wait_s=wait_s,
        gap_s=gap_s,
        gap_row_s=gap_row_s,
        about=facts,
    )


def alike(observed: Sequence[ObservedSteps]) -> list[ObservedSteps]:
    """One observation for all that computed the same, with their median time."""
    medians = _medians(((one.steps, one.work), one.took_s) for one in observed)
    return [ObservedSteps(steps, work, took_s) for (steps, work), took_s in medians.items()]


def line_through(gaps: Sequence[Gap]) -> tuple[float, float]:
    """Seconds between steps, and more for each sequence, from medians by number of sequences."""
    steps = [
        ObservedSteps(1, StepWork(0, sequences, 0, 0.0), gap_s)
        for sequences, gap_s in _medians(gaps).items()
    ]
    if len(steps) < 2:
        return (steps[0].took_s if steps else 0.0), 0.0
    step = fit(steps).step
    return step.base_s, step.decode_s


def slope_of(more: Sequence[tuple[int, float]]) -> float:
    """Seconds that each waiting request adds, from medians by their number; 0 or more."""
    medians = _medians(more)
    if len(medians) < 2:
        return 0.0
    return max(0.0, float(np.polyfit(list(medians), list(medians.values()), 1)[0]))


def fit_without_odd(observed: Sequence[ObservedSteps]) -> Fitted:
    """A fit without the outliers of a first fit."""
    first = fit(observed)
    costs = SimCosts(first.step, first.pair_s)
    kept = []
    for one in observed:
        computed_s = costs.of(one.work) + (one.steps - 1) * first.step.base_s
        if 1 / _OUTLIER < one.took_s / max(computed_s, 1e-12) < _OUTLIER:
            kept.append(one)
    return fit(kept) if len(kept) > len(observed) // 2 else first


def _medians(values: Iterable[tuple[KeyT, float]]) -> dict[KeyT, float]:
    """The median of the values of each key."""
    found: dict[KeyT, list[float]] = {}
    for key, value in values:
        found.setdefault(key, []).append(value)
    return {key: median(several) for key, several in found.items()}


async def _wait_s(config: EngineConfig, found: Fitted, seed: int) -> float:
    """Seconds that each waiting request adds to a step, if memory is short."""
    costs = SimCosts(found.step, found.pair_s)
    steps: list[StepRecord] = []
    async with open_engine(config, seed) as engine:
        for _ in range(_QUEUED_ROUNDS):
            for at in range(_QUEUED):
                engine.submit(engine.draw(_QUEUED_PROMPT_TOKENS), 4 + at % 21)
            steps += [step async for step in _steps(engine, _QUEUED)]
    return slope_of([(one.waiting, _took_s(one) - costs.of(_queued_work(one))) for one in steps])


def _queued_work(record: StepRecord) -> StepWork:
    """The work of a step that computes its short prompts whole."""
    tokens = record.prefill_tokens
    pairs = tokens * _QUEUED_PROMPT_TOKENS / 2
    return StepWork(tokens, record.decode_tokens, record.kv_tokens, pairs)


def _took_s(record: StepRecord) -> float:
    return record.ended_at_s - record.started_at_s


async def _measure(
    engine: MeasuredEngine, config: EngineConfig, point: CalibrationPoint, gaps: list[Gap]
) -> list[ObservedSteps]:
    """The steps of one point: each with prompt tokens alone, the decode steps together.

    Args:
        engine: The engine.
        config: Settings of the engine.
        point: The point.
        gaps: Receives the gaps between its steps.
    """
    tokens = point.prompt_tokens
    requests = [engine.submit(engine.draw(tokens), NEW_TOKENS) for _ in range(point.batch)]
    outputs = [done async for done in engine.outputs(point.batch)]
    ends = [end for done in outputs for end in done.ends]
    cached = {end.request_id: end.ledger.cached_tokens for end in ends}  # by chance
    prompts = dict.fromkeys(requests, tokens)
    log = StepLog(prompts, cached, config.prefill_chunk_tokens, config.step_tokens)
    found: list[ObservedSteps] = []
    decodes: list[tuple[StepWork, float]] = []
    before: StepRecord | None = None
    for step in filter(None, (done.step for done in outputs)):
        work, took_s = log.work_of(step), _took_s(step)
        if before is not None:
            gaps.append((len(before.requests), step.started_at_s - before.ended_at_s))
        before = step
        if work.prefill_tokens:
            found.append(ObservedSteps(1, work, took_s))
        elif work.decode_tokens == point.batch:
            decodes.append((work, took_s))
    if decodes:
        kv_tokens = sum(work.kv_tokens for work, _ in decodes) // len(decodes)
        took_s = median(took_s for _, took_s in decodes)
        found.append(ObservedSteps(1, StepWork(0, point.batch, kv_tokens, 0.0), took_s))
    return found


async def _steps(engine: MeasuredEngine, requests: int) -> AsyncIterator[StepRecord]:
    """The steps of the engine, until so many requests have ended."""
    async for done in engine.outputs(requests):
        if done.step is not None:
            yield done.step
