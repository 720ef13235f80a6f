"""Verdicts of a judge over results, and the results that they complete.

Equal results of a case have one verdict, whatever configuration gave them: a judge that draws its
answers would tell equal configurations apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.evaluation.engine_choice import EvaluationConfig
from agentrt.lab.evaluation.program_runs import RunEnd, run_program
from agentrt.lab.evaluation.scorer import score_of
from agentrt.program import Program


@record
class Verdict:
    """A judge's score of a result.

    Attributes:
        score: From 0 to 1.
        cost_pico: Cost of the judgement, in millionths of a millionth of the currency.
        currency: Currency of the cost; "" without prices.
    """

    score: float
    cost_pico: int
    currency: str


async def judge_results(
    program: Program[..., Any],
    results: Sequence[CaseResult],
    config: EvaluationConfig,
    *,
    arguments_of: Callable[[CaseResult], Mapping[str, Any]],
    on_verdict: Callable[[CaseResult, Verdict], None],
    concurrency: int = 1,
    seed: int = 0,
) -> None:
    """Let a judge score results.

    Args:
        program: The judge.
        results: Results without an error.
        config: Configuration of the judge.
        arguments_of: Arguments of the judge for a result.
        on_verdict: Called with each result and its verdict, as it comes.
        concurrency: Runs at once.
        seed: Seed of the sampling in each run.

    Raises:
        BackendError: The judge's engine does not start or has failed.
        UsageError: The judge raised, or gave no score.
    """
    equal: dict[str, list[CaseResult]] = {}
    for one in results:
        key = json.dumps([one.case, one.value], sort_keys=True)
        equal.setdefault(key, []).append(one)
    groups = list(equal.values())

    def end(index: int, ended: RunEnd) -> None:
        first, *others = groups[index]
        if ended.error:
            raise UsageError(
                f"the judge {program.name} failed on case {first.case} of {first.config}: "
                f"{ended.error}",
                hint="mend the judge, and go on with --resume FILE if that was given",
            )
        score = score_of(ended.value, f"the judge {program.name}")
        on_verdict(first, Verdict(score, ended.used.cost_pico, ended.used.currency))
        for one in others:  # judged along, at no cost of their own
            on_verdict(one, Verdict(score, 0, ended.used.currency))

    await run_program(
        program,
        [arguments_of(group[0]) for group in groups],
        config,
        on_end=end,
        concurrency=concurrency,
        seed=seed,
    )


def known_verdicts(results: Sequence[CaseResult]) -> list[CaseResult]:
    """Results that wait for judges while an equal one of the case is scored, with its score.

    Args:
        results: Results of any configurations, with those that are scored.
    """
    scored = {(one.case, _text(one)): one for one in results if one.judged and not one.error}
    pairs = [(one, scored.get((one.case, _text(one)))) for one in results if not one.judged]
    return [
        replace(
            one,
            passed=same.passed,
            score=same.score,
            judged=True,
            judge_currency=same.judge_currency,
        )
        for one, same in pairs
        if same is not None
    ]


def _text(one: CaseResult) -> str:
    return json.dumps(one.value, sort_keys=True)


def with_verdicts(result: CaseResult, verdicts: Sequence[Verdict], scorers: int) -> CaseResult:
    """A result with the verdicts of all judges.

    Args:
        result: The result with the scores of the suite's other scorers.
        verdicts: One of each judge.
        scorers: Number of the other scorers.
    """
    scores = [one.score for one in verdicts]
    return replace(
        result,
        passed=result.passed and all(score == 1 for score in scores),
        score=(result.score * scorers + sum(scores)) / (scorers + len(scores)),
        judged=True,
        judge_cost_pico=sum(one.cost_pico for one in verdicts),
        judge_currency=next((one.currency for one in verdicts if one.currency), ""),
    )
