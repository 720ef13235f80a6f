"""`agentrt eval`: a suite under several configurations, compared case by case."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentrt.base.errors import UsageError

if TYPE_CHECKING:
    from agentrt.lab.evaluation.case_result import CaseResult
    from agentrt.lab.evaluation.case_runs import CaseRun
    from agentrt.lab.evaluation.engine_choice import EvaluationConfig
    from agentrt.lab.evaluation.limit import Limit
    from agentrt.lab.evaluation.suite import Suite

CROSSED = 6
"""Exit code if a limit of `--fail-if` is crossed."""


def evaluate(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A folder with suite.toml.")],
    configs: Annotated[
        str,
        typer.Option(
            "--configs",
            metavar="A,B",
            help="Engines of agentrt.toml, addresses, checkpoints, .toml files; A is the baseline.",
        ),
    ] = "embedded",
    cases: Annotated[
        Path | None,
        typer.Option("--cases", metavar="FILE", help="Cases in place of those of the suite."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Only the first N cases; 0 is all.")
    ] = 0,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="Cases at once.")
    ] = 4,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of sampling and of intervals.")
    ] = 0,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="LIMIT",
            help="As accuracy<-1%, latency_p95>+10% or cost>0.5; may be repeated. Exit code 6.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Keep results there, and go on with them."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write figures and results.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with plots.")
    ] = None,
) -> int:
    """Run a suite of cases under several configurations, and compare them."""
    import anyio

    from agentrt import embedded
    from agentrt.base.engines.engine_file import engine_file
    from agentrt.lab.evaluation.config_summary import crossed, summarise
    from agentrt.lab.evaluation.engine_choice import read_configs
    from agentrt.lab.evaluation.evaluation_report import EvaluationReport
    from agentrt.lab.evaluation.limit import parse_limit
    from agentrt.lab.evaluation.suite import read_suite

    limits = [parse_limit(one) for one in fail_if or ()]
    chosen = read_configs(configs, engine_file(os.environ), embedded.path())
    check_limits(limits, len(chosen))
    check_currencies(limits, chosen)
    found = read_suite(Path(suite), scoring_function, cases=cases)
    if limit:
        found = replace(found, cases=found.cases[:limit])
    evaluation = Evaluation(found, chosen, resume, concurrency=concurrency, seed=seed)
    try:
        anyio.run(evaluation.perform)
    finally:
        evaluation.close()
    results = evaluation.results()
    summaries = summarise(results, seed)
    report = EvaluationReport(found.name, results, summaries, crossed(summaries, limits), seed)
    sys.stdout.write(report.text())
    if json_file is not None:
        write(json_file, json.dumps(report.data(), ensure_ascii=False, indent=1) + "\n")
    if html_file is not None:
        write(html_file, report.html())
    return CROSSED if report.crossed else 0


class Evaluation:
    """The runs of one command: every case under every configuration.

    Args:
        suite: The suite.
        configs: The configurations.
        resume: File of results, or None.
        concurrency: Cases at once.
        seed: Seed of sampling.

    Raises:
        UsageError: The program or an input is wrong, or the file is of another evaluation.
    """

    def __init__(
        self,
        suite: Suite,
        configs: Sequence[EvaluationConfig],
        resume: Path | None,
        *,
        concurrency: int,
        seed: int,
    ) -> None:
        from agentrt.cli.target import find
        from agentrt.lab.evaluation.case_result import ResultLog

        self._suite, self._configs = suite, configs
        self._concurrency, self._seed = concurrency, seed
        self._program = find(suite.program)
        self._runs = case_runs(suite, self._program)
        self._log: ResultLog | None = None
        self._results: dict[tuple[str, str], CaseResult] = {}
        if resume is not None:
            self._log = ResultLog(resume, self._header())
            self._results.update(self._log.results)

    async def perform(self) -> None:
        """Run what has no result yet, one configuration after the other."""
        from agentrt.lab.evaluation.case_runs import run_cases

        for config in self._configs:
            due = [run for run in self._runs if (config.name, run.case.name) not in self._results]
            if due:
                await run_cases(
                    self._program,
                    due,
                    config,
                    self._suite.scorers,
                    plain=self._data_of,
                    on_result=self._add,
                    concurrency=self._concurrency,
                    seed=self._seed,
                )

    def results(self) -> list[list[CaseResult]]:
        """Results of each configuration, cases in the order of the suite."""
        return [
            [self._results[config.name, case.name] for case in self._suite.cases]
            for config in self._configs
        ]

    def close(self) -> None:
        """Close the file of results."""
        if self._log is not None:
            self._log.close()

    def _add(self, result: CaseResult) -> None:
        self._results[result.config, result.case] = result
        if self._log is not None:
            self._log.add(result)

    def _data_of(self, value: Any) -> Any:
        """A result as JSON-like data."""
        from agentrt.base.canonical_json import dumps
        from agentrt.cli.output import checked
        from agentrt.cli.parameters import location_of

        return json.loads(dumps(checked(value, where=location_of(self._program))))

    def _header(self) -> dict[str, Any]:
        """Identity of the evaluation, for its file of results."""
        settings = {
            f"config {one.name}": hashlib.sha256(repr(one.settings).encode()).hexdigest()[:16]
            for one in self._configs
        }
        return {"suite": self._suite.digest, "seed": self._seed, **settings}


def case_runs(suite: Suite, program: Any) -> list[CaseRun]:
    """The cases with their inputs as arguments of the program.

    Raises:
        UsageError: An input is unknown, missing or of another type.
    """
    from agentrt.cli.inputs import checked_object, require
    from agentrt.cli.parameters import parameters_of
    from agentrt.cli.values import from_json
    from agentrt.lab.evaluation.case_runs import CaseRun

    parameters = parameters_of(program)
    known = {one.name: one for one in parameters}
    runs = []
    for case in suite.cases:
        given = checked_object(parameters, dict(case.inputs), case.where, where=case.where)
        require(parameters, given, where=case.where)
        typed = {name: from_json(known[name], one, where=case.where) for name, one in given.items()}
        runs.append(CaseRun(case, typed))
    return runs


def scoring_function(target: str) -> Any:
    """The function that `FILE.py:FN` names.

    Raises:
        UsageError: The file has no such function.
    """
    from agentrt.cli.target import load, split

    file, name = split(target)
    if not name:
        raise UsageError(f"{target} names no function", hint='give function = "FILE.py:FN"')
    found = getattr(load(file), name, None)
    if not callable(found):
        raise UsageError(f"{file} has no function {name!r}", hint="name a function of that file")
    return found


def check_limits(limits: Sequence[Limit], configs: int) -> None:
    """Check that relative limits have something to compare.

    Raises:
        UsageError: There is one configuration only.
    """
    relative = [one for one in limits if one.relative]
    if relative and configs < 2:
        raise UsageError(
            f"--fail-if {relative[0].text!r} compares with the first configuration",
            hint="name two with --configs A,B, or leave the sign out",
        )


def check_currencies(limits: Sequence[Limit], configs: Sequence[EvaluationConfig]) -> None:
    """Check that costs can be held against limits, before anything is paid for.

    Raises:
        UsageError: A limit bounds the cost, and prices are missing or in several currencies.
    """
    costs = [one for one in limits if one.figure == "cost"]
    prices = [one.settings.prices for one in configs]
    if costs and (None in prices or len({one.currency for one in prices if one}) > 1):
        raise UsageError(
            f"--fail-if {costs[0].text!r} needs prices in one currency",
            hint="give each engine its prices in agentrt.toml; see docs/costs.md",
        )


def write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error}", hint="name a file in a folder that exists"
        ) from None
