"""Runs the cases of a suite under one configuration."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agentrt.analysis import RunRecord, RunRecorder, usage
from agentrt.app import open_runtime
from agentrt.base.bounded_map import BoundedMap
from agentrt.base.errors import (
    EngineDied,
    EngineUnavailable,
    ModelInvalid,
    NotInstalled,
    ProgramError,
    UsageError,
)
from agentrt.base.exception_groups import root_of
from agentrt.base.ids import RunId
from agentrt.base.record import record
from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.evaluation.engine_choice import EvaluationConfig
from agentrt.lab.evaluation.scorer import CaseScorer
from agentrt.lab.evaluation.suite import Case
from agentrt.program import Program
from agentrt.runtime import RunOptions, Runtime

_OUTAGES = (EngineDied, EngineUnavailable, ModelInvalid, NotInstalled)


@record
class CaseRun:
    """A case and the arguments that it gives the program.

    Attributes:
        case: The case.
        arguments: Arguments with the types of the program's parameters.
    """

    case: Case
    arguments: Mapping[str, Any]


async def run_cases(
    program: Program[..., Any],
    runs: Sequence[CaseRun],
    config: EvaluationConfig,
    scorers: Sequence[CaseScorer],
    *,
    plain: Callable[[Any], Any],
    on_result: Callable[[CaseResult], None],
    concurrency: int = 1,
    seed: int = 0,
) -> None:
    """Run cases and score their results.

    A run that raises is a case that does not pass. An engine that fails ends the evaluation: an
    outage is no wrong answer.

    Args:
        program: The program.
        runs: The cases to run.
        config: The configuration.
        scorers: Scorers of the suite.
        plain: Makes JSON-like data of a result; a `ProgramError` is that of the case.
        on_result: Called with each result as it comes.
        concurrency: Runs at once.
        seed: Seed of the sampling in each run.

    Raises:
        BackendError: The engine does not start or has failed.
        UsageError: A case does not fit a scorer.
    """
    records: dict[RunId, RunRecord] = {}
    recorder = RunRecorder(lambda found: records.update({found.run_id: found}))

    async def run(runtime: Runtime, _at: int, one: CaseRun) -> None:
        run_id = RunId(secrets.token_hex(8))
        given, error, began_s = None, "", time.perf_counter()
        try:
            configured = runtime.with_options(RunOptions(run_id=run_id, seed=seed))
            given = await configured.run(program, **one.arguments)
        except (Exception, SystemExit) as raised:
            error = _error_text(raised)
        spent_s = time.perf_counter() - began_s
        value = None
        try:
            value = plain(given)
        except ProgramError as raised:
            error = _error_text(raised)
        scores = [0.0] if error else [_scored(each, value, one.case) for each in scorers]
        found = records.pop(run_id, None)
        used = usage(found or RunRecord(run_id))
        on_result(
            CaseResult(
                config.name,
                one.case.name,
                all(score == 1 for score in scores),
                sum(scores) / len(scores),
                value,
                error,
                found.compound_s if found is not None else spent_s,
                used.cost_pico,
                used.currency,
                used.output_tokens,
            )
        )

    async with (
        open_runtime(engine=config.settings, observers=[recorder], programs=[program]) as runtime,
        BoundedMap(partial(run, runtime), runs, concurrency=concurrency) as ends,
    ):
        async for _ in ends:
            pass


def _error_text(raised: BaseException) -> str:
    """Type and text of what a run raised.

    Raises:
        BackendError: The engine has failed.
        UsageError: The program cannot run at all.
    """
    first = root_of(raised)
    if isinstance(first, (*_OUTAGES, UsageError)):
        raise first
    return f"{type(first).__name__}: {first}"


def _scored(scorer: CaseScorer, value: Any, case: Case) -> float:
    try:
        return scorer.score(value, case.expected)
    except UsageError as error:
        raise UsageError(
            f"case {case.name}: {error.message}", hint=error.hint, where=case.where
        ) from None
