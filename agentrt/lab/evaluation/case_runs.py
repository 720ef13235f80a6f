"""Runs the cases of a suite under one configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrt.base.errors import ProgramError, UsageError
from agentrt.base.record import record
from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.evaluation.engine_choice import EvaluationConfig
from agentrt.lab.evaluation.program_runs import RunEnd, error_text, run_program
from agentrt.lab.evaluation.scorer import CaseScorer
from agentrt.lab.evaluation.suite import Case
from agentrt.program import Program


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
    judged: bool = True,
    concurrency: int = 1,
    seed: int = 0,
    timed: bool = False,
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
        judged: False if judges score the results later; errors are not theirs to score.
        concurrency: Runs at once.
        seed: Seed of the sampling in each run.
        timed: Whether latencies are compared with those of other starts of the engine.

    Raises:
        BackendError: The engine does not start or has failed.
        UsageError: A case does not fit a scorer.
    """

    def end(index: int, ended: RunEnd) -> None:
        case, value, error = runs[index].case, None, ended.error
        try:
            value = plain(ended.value)
        except ProgramError as raised:
            error = error_text(raised)
        scores = [] if error else [_scored(each, value, case) for each in scorers]
        on_result(
            CaseResult(
                config.name,
                case.name,
                not error and all(score == 1 for score in scores),
                sum(scores) / len(scores) if scores else 0.0,
                value,
                error,
                ended.latency_s,
                ended.used.cost_pico,
                ended.used.currency,
                ended.used.output_tokens,
                judged or bool(error),
            )
        )

    arguments = [one.arguments for one in runs]
    await run_program(
        program,
        arguments,
        config,
        on_end=end,
        concurrency=concurrency,
        seed=seed,
        timed=timed,
    )


def _scored(scorer: CaseScorer, value: Any, case: Case) -> float:
    try:
        return scorer.score(value, case.expected)
    except UsageError as error:
        raise UsageError(
            f"case {case.name}: {error.message}", hint=error.hint, where=case.where
        ) from None
