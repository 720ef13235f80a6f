"""Runs of one program under one configuration, several at once."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agentrt.analysis import RunRecord, RunRecorder, Usage, usage
from agentrt.app import open_runtime
from agentrt.base.bounded_map import BoundedMap
from agentrt.base.errors import (
    EngineDied,
    EngineUnavailable,
    ModelInvalid,
    NotInstalled,
    UsageError,
)
from agentrt.base.exception_groups import root_of
from agentrt.base.ids import RunId
from agentrt.base.record import record
from agentrt.lab.evaluation.engine_choice import EvaluationConfig
from agentrt.program import Program
from agentrt.runtime import RunOptions, Runtime

_OUTAGES = (EngineDied, EngineUnavailable, ModelInvalid, NotInstalled)


@record
class RunEnd:
    """How a run ended.

    Attributes:
        value: Result of the program; None if it raised.
        error: Type and text of what it raised; "" if nothing.
        latency_s: Compound latency in seconds.
        used: Tokens and costs.
    """

    value: Any
    error: str
    latency_s: float
    used: Usage


async def run_program(
    program: Program[..., Any],
    arguments: Sequence[Mapping[str, Any]],
    config: EvaluationConfig,
    *,
    on_end: Callable[[int, RunEnd], None],
    concurrency: int = 1,
    seed: int = 0,
    timed: bool = False,
) -> None:
    """Run a program once for each of several arguments.

    Args:
        program: The program.
        arguments: Arguments of each run by name, with the types of the program's parameters.
        config: The configuration.
        on_end: Called with the index of a run and its end, as it comes.
        concurrency: Runs at once.
        seed: Seed of the sampling in each run.
        timed: Whether latencies are compared with those of other starts of the engine. A run with
            the first arguments, without an end, then warms it up, and no answer is taken from the
            response cache.

    Raises:
        BackendError: The engine does not start or has failed.
        UsageError: The program cannot run at all.
    """
    records: dict[RunId, RunRecord] = {}
    recorder = RunRecorder(lambda found: records.update({found.run_id: found}))

    async def run(runtime: Runtime, index: int, given: Mapping[str, Any]) -> None:
        run_id = RunId(secrets.token_hex(8))
        value, error, began_s = None, "", time.perf_counter()
        try:
            configured = runtime.with_options(RunOptions(run_id=run_id, seed=seed))
            value = await configured.run(program, **given)
        except (Exception, SystemExit) as raised:
            error = error_text(raised)
        spent_s = time.perf_counter() - began_s
        found = records.pop(run_id, None)
        latency_s = found.compound_s if found is not None else spent_s
        on_end(index, RunEnd(value, error, latency_s, usage(found or RunRecord(run_id))))

    async with open_runtime(
        engine=config.settings,
        models=config.roles,
        observers=[recorder],
        programs=[program],
        response_cache="off" if timed else None,
    ) as runtime:
        if timed and arguments:
            await _warm_up(runtime, program, arguments[0], seed)
        async with BoundedMap(partial(run, runtime), arguments, concurrency=concurrency) as ends:
            async for _ in ends:
                pass


async def _warm_up(
    runtime: Runtime, program: Program[..., Any], given: Mapping[str, Any], seed: int
) -> None:
    """Let a run compile grammars and fill caches that others of the same start would find."""
    try:
        await runtime.with_options(RunOptions(seed=seed)).run(program, **given)
    except (Exception, SystemExit) as raised:
        error_text(raised)


def error_text(raised: BaseException) -> str:
    """Type and text of what a run raised.

    Raises:
        BackendError: The engine has failed.
        UsageError: The program cannot run at all.
    """
    first = root_of(raised)
    if isinstance(first, (*_OUTAGES, UsageError)):
        raise first
    return f"{type(first).__name__}: {first}"
