"""The runs of one `agentrt eval`: every case under every configuration, and then the judges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.gguf.checkpoint_files import weight_files

if TYPE_CHECKING:
    from agentrt.lab.evaluation.case_result import CaseResult
    from agentrt.lab.evaluation.case_runs import CaseRun
    from agentrt.lab.evaluation.engine_choice import EvaluationConfig
    from agentrt.lab.evaluation.suite import Case, Suite
    from agentrt.lab.evaluation.verdicts import Verdict
    from agentrt.lab.progress import WorkPace

Key = tuple[str, str]
"""Names of a configuration and of a case."""


class Evaluation:
    """The runs of one command.

    Args:
        suite: The suite.
        configs: The configurations.
        judging: The configuration of each judge of the suite.
        resume: File of results, or None.
        concurrency: Runs at once.
        seed: Seed of sampling.
        timed: Whether latencies of one configuration come from several starts of its engine.

    Raises:
        UsageError: A program or an input is wrong, or the file is of another evaluation.
    """

    def __init__(
        self,
        suite: Suite,
        configs: Sequence[EvaluationConfig],
        judging: Sequence[EvaluationConfig],
        resume: Path | None,
        *,
        concurrency: int,
        seed: int,
        timed: bool = False,
    ) -> None:
        from agentrt.cli.target import find
        from agentrt.lab.evaluation.case_result import ResultLog

        self._suite, self._configs, self._judging = suite, configs, judging
        self._concurrency, self._seed, self._timed = concurrency, seed, timed
        self._program = find(suite.program)
        self._judges = [find(one.program) for one in suite.judges]
        self._arguments = [_judge_arguments(one) for one in self._judges]
        self._runs = case_runs(suite, self._program)
        self._log: ResultLog | None = None
        self._results: dict[Key, CaseResult] = {}
        self._timings: dict[tuple[str, str, int], CaseResult] = {}
        if resume is not None:
            self._log = ResultLog(resume, self._header())
            self._results.update(self._log.results)
            self._timings.update(self._log.timings)

    async def perform(self) -> None:
        """Run what has no result yet, one configuration after the other, and then the judges.

        Judges come last: beside the runs they would be in the way of an engine on this machine.
        """
        from agentrt.lab.progress import WorkPace, log

        cases = len(self._runs)
        due = {config.name: len(self._due(config, cases)) for config in self._configs}
        pace = WorkPace("cases", sum(due.values()))
        for config in self._configs:
            if due[config.name]:
                log(f"{config.name}: {due[config.name]} of {cases} cases to run")
            await self.run(config, cases, pace)
        await self.judge()

    async def run(self, config: EvaluationConfig, cases: int, pace: WorkPace | None = None) -> None:
        """Run the first cases under a configuration, as far as they have no result yet.

        Args:
            config: The configuration.
            cases: Number of the cases.
            pace: Pace of the work that this is a part of; None has one of its own.

        Raises:
            BackendError: The engine does not start or has failed.
            UsageError: A case does not fit a scorer.
        """
        due = self._due(config, cases)
        await self._run(config, due, self._add, judged=not self._judges, pace=pace)

    def _due(self, config: EvaluationConfig, cases: int) -> list[CaseRun]:
        """Runs of the first cases that have no result under a configuration."""
        known = self._results
        return [run for run in self._runs[:cases] if (config.name, run.case.name) not in known]

    async def time_again(self, config: EvaluationConfig, cases: Sequence[int], turn: int) -> None:
        """Run cases once more, for their latencies alone, as far as the turn has not run them.

        Args:
            config: The configuration.
            cases: Indices of the cases.
            turn: Number of the turn, from 1 on.

        Raises:
            BackendError: The engine does not start or has failed.
        """
        runs = [self._runs[case] for case in cases]
        due = [run for run in runs if (config.name, run.case.name, turn) not in self._timings]

        def add(result: CaseResult) -> None:
            again = replace(result, turn=turn)
            self._timings[again.config, again.case, turn] = again
            if self._log is not None:
                self._log.add(again)

        await self._run(config, due, add, judged=True)

    def timings(self, config: EvaluationConfig) -> dict[int, dict[int, CaseResult]]:
        """Results of the later turns of a configuration, by turn and by the index of the case."""
        index = {case.name: at for at, case in enumerate(self._suite.cases)}
        found: dict[int, dict[int, CaseResult]] = {}
        for (name, case, turn), one in self._timings.items():
            if name == config.name and case in index:
                found.setdefault(turn, {})[index[case]] = one
        return found

    async def _run(
        self,
        config: EvaluationConfig,
        due: Sequence[CaseRun],
        add: Callable[[CaseResult], None],
        *,
        judged: bool,
        pace: WorkPace | None = None,
    ) -> None:
        from agentrt.lab.evaluation.case_runs import run_cases
        from agentrt.lab.progress import WorkPace

        if due:
            counted = pace or WorkPace(f"cases of {config.name}", len(due))

            def end(result: CaseResult) -> None:
                add(result)
                counted.done()

            await run_cases(
                self._program,
                due,
                config,
                self._suite.scorers,
                plain=self._data_of,
                on_result=end,
                judged=judged,
                concurrency=self._concurrency,
                seed=self._seed,
                timed=self._timed,
            )

    async def judge(self) -> None:
        """Let the judges score what they have not scored; equal results of a case have one score.

        Raises:
            BackendError: A judge's engine does not start or has failed.
            UsageError: A judge raised, or gave no score.
        """
        from agentrt.lab.evaluation.verdicts import known_verdicts

        names = {one.name for one in self._configs}
        own = [one for one in self._results.values() if one.config in names]
        for one in known_verdicts(own):
            self._add(one)
        waiting = [self._results[one.config, one.case] for one in own]
        await self._judge([one for one in waiting if not one.judged])

    def first_results(self, config: EvaluationConfig) -> list[CaseResult]:
        """Scored results of a configuration, up to the first case that has none."""
        found: list[CaseResult] = []
        for case in self._suite.cases:
            one = self._results.get((config.name, case.name))
            if one is None or not one.judged:
                break
            found.append(one)
        return found

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

    async def _judge(self, waiting: Sequence[CaseResult]) -> None:
        """Complete results with the verdicts of all judges."""
        from agentrt.lab.evaluation.verdicts import judge_results, with_verdicts
        from agentrt.lab.progress import WorkPace

        pace = WorkPace("verdicts", len(waiting) * len(self._judges))
        verdicts: dict[Key, list[Verdict]] = {(one.config, one.case): [] for one in waiting}
        cases = {one.name: one for one in self._suite.cases}

        def add(result: CaseResult, verdict: Verdict) -> None:
            found = verdicts[result.config, result.case]
            found.append(verdict)
            if len(found) == len(self._judges):
                self._add(with_verdicts(result, found, len(self._suite.scorers)))
            pace.done()

        for judge, config, typed in zip(self._judges, self._judging, self._arguments, strict=True):
            if not waiting:
                break
            await judge_results(
                judge,
                waiting,
                config,
                arguments_of=partial(_of_result, cases, typed),
                on_verdict=add,
                concurrency=self._concurrency,
                seed=self._seed,
            )

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
        configs = {f"config {one.name}": _digest(one) for one in self._configs}
        judges = {f"judge {at}": _digest(one) for at, one in enumerate(self._judging, start=1)}
        return {"suite": self._suite.digest, "seed": self._seed, **configs, **judges}


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


def _judge_arguments(judge: Any) -> Callable[[Any, Case], dict[str, Any]]:
    """Makes the arguments of a judge from a result and its case.

    Raises:
        UsageError: The judge takes something else than a judge is given.
    """
    from agentrt.cli.parameters import location_of, parameters_of
    from agentrt.cli.values import from_json
    from agentrt.lab.evaluation.judge import INPUTS

    parameters, where = parameters_of(judge), location_of(judge)
    for one in parameters:
        if one.name not in INPUTS and one.required:
            raise UsageError(
                f"a judge takes no `{one.name}`",
                hint=f"its parameters are {', '.join(INPUTS)}, as far as it needs them",
                where=where,
            )

    def typed(result: Any, case: Case) -> dict[str, Any]:
        given = {"result": result, "expected": case.expected, "inputs": dict(case.inputs)}
        return {
            one.name: from_json(one, given[one.name], where=where)
            for one in parameters
            if one.name in given
        }

    return typed


def _of_result(
    cases: Mapping[str, Case], typed: Callable[[Any, Case], dict[str, Any]], one: CaseResult
) -> dict[str, Any]:
    return typed(one.value, cases[one.case])


def _digest(config: EvaluationConfig) -> str:
    """Identity of a configuration: its settings, and the state of the weights that it loads."""
    files: list[Path] = []
    for settings in (config.settings, *(config.roles or {}).values()):
        if not isinstance(settings, EngineConfig):
            continue
        places = (
            settings.model_path,
            settings.draft_model,
            *(one.path for one in settings.adapters),
        )
        files += [file for place in places if place is not None for file in weight_files(place)]
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    known: tuple[object, ...] = (config.settings, states)
    if config.roles is not None:
        known += (sorted(config.roles.items()),)
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]
