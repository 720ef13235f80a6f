"""`agentrt tune`: the configuration of lowest latency that keeps the answers of a suite."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentrt.base.errors import UsageError
from agentrt.cli.suite_flags import Cases, Concurrency, Resume, Seed

if TYPE_CHECKING:
    from agentrt.base.config import EngineConfig
    from agentrt.base.engines.engine_file import EngineFile
    from agentrt.lab.tuning.candidates import SearchSpace


def tune(
    program: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:FN]", help="A program in place of the suite's; takes its inputs."
        ),
    ] = "",
    suite: Annotated[
        str, typer.Option("--suite", metavar="SUITE", help="A folder with suite.toml.")
    ] = "",
    slo: Annotated[
        str | None,
        typer.Option("--slo", metavar="TIME", help="Highest p95 of a run's latency, as 2s."),
    ] = None,
    lever: Annotated[
        list[str] | None,
        typer.Option(
            "--lever",
            metavar="NAME=A,B",
            help="Values to search, as weights=checkpoint,int8 or roles.planner=A,B; may be "
            "repeated. By default formats and drafts of the embedded engine.",
        ),
    ] = None,
    models: Annotated[
        str,
        typer.Option(
            "--models",
            metavar="A,B",
            help="Engines of agentrt.toml to try in each role, checkpoints, .gguf files.",
        ),
    ] = "",
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="NAME|URL", help="The baseline's engine."),
    ] = "",
    device: Annotated[
        str, typer.Option("--device", metavar="cpu|cuda", help="Device of the embedded engine.")
    ] = "cpu",
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="LIMIT",
            help="What a configuration must not do, as in agentrt eval; may be repeated. "
            "score<-1% unless another limit of answers is given.",
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option("--objective", metavar="p50|p95|cost", help="What is to be lowest.")
    ] = "p50",
    cases: Cases = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Only the first N cases; 0 is all.")
    ] = 0,
    first: Annotated[
        int,
        typer.Option(
            "--first", metavar="N", min=2, help="Cases before the first configuration is dropped."
        ),
    ] = 4,
    turns: Annotated[
        int,
        typer.Option(
            "--turns",
            metavar="N",
            min=0,
            help="Most turns of each finalist, measured in turns until intervals decide; 0 is "
            "none.",
        ),
    ] = 8,
    judge: Annotated[
        str,
        typer.Option(
            "--judge", metavar="CONFIG", help="Configuration of the judges, not the suite's."
        ),
    ] = "",
    concurrency: Concurrency = 1,
    seed: Seed = 0,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="Wall time of the search, as 10m."),
    ] = None,
    max_runs: Annotated[
        int | None,
        typer.Option("--max-runs", metavar="N", min=1, help="Most runs of a case in all."),
    ] = None,
    resume: Resume = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The file that is written.")
    ] = Path("agentrt.toml"),
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Write over a file that is there; engines, roles and other tables of it that "
            "agentrt.toml lacks stay.",
        ),
    ] = False,
    form: Annotated[
        str, typer.Option("--format", metavar="text|json", help="What standard output gets.")
    ] = "text",
) -> int:
    """Search the configuration of lowest latency that keeps the answers of a suite."""
    from agentrt.cli.limits import seconds
    from agentrt.cli.tune_output import check_out, write_result
    from agentrt.lab.tuning.given_rules import cost_limits, read_rules

    if form not in ("text", "json"):
        raise UsageError(f"--format {form!r} is unknown", hint="give text or json")
    if not suite:
        raise UsageError("agentrt tune was given no suite", hint="give --suite FOLDER")
    slo_s = None if slo is None else seconds(slo, "--slo")
    rules = read_rules(
        fail_if or (),
        slo_s,
        objective,
        first_cases=first,
        most_plays=max_runs,
        most_turns=turns,
        seed=seed,
    )
    budget_s = None if budget is None else seconds(budget, "--budget")
    check_out(out, force=force)

    import anyio

    from agentrt import embedded
    from agentrt.base.engines.engine_file import engine_file
    from agentrt.cli.embedded_engine import embedded_engine
    from agentrt.cli.eval import check_currencies, judge_configs, scoring_function
    from agentrt.cli.evaluation import Evaluation
    from agentrt.cli.tuning import Tuning
    from agentrt.lab.evaluation.engine_choice import read_configs
    from agentrt.lab.evaluation.suite import read_suite
    from agentrt.lab.tuning.race import nearest
    from agentrt.lab.tuning.tuning_report import TuningReport

    file = engine_file(os.environ)
    now = embedded_engine(file, device)
    space = searched(lever or (), models, engine, file, now)
    found = read_suite(Path(suite), scoring_function, cases=cases, program=program)
    if limit:
        found = replace(found, cases=found.cases[:limit])
    read = partial(read_configs, file=file, model=embedded.path())
    judging = judge_configs(found.judges, judge, read)
    configs = [one.config for one in space.candidates]
    check_currencies(cost_limits(rules), configs)
    evaluation = Evaluation(
        found, configs, judging, resume, concurrency=concurrency, seed=seed, timed=True
    )
    count = len(found.cases)
    tuning = Tuning(evaluation, space.candidates, count, rules, partial(typer.echo, err=True))
    try:
        cut_off = anyio.run(tuning.perform, budget_s)
    finally:
        evaluation.close()
    standing, results = tuning.standing(), tuning.results()
    spent = f"--max-runs {max_runs}" if standing.spent else ""
    report = TuningReport(
        found.name,
        count,
        rules,
        space.candidates,
        space.left_out,
        results,
        standing,
        f"--budget {budget}" if cut_off else spent,
        nearest(results, rules) if standing.chosen is None else None,
        sum(map(len, tuning.timings().values())),
    )
    return write_result(report, file, now, out, form)


def searched(
    lever: Sequence[str], models: str, engine: str, file: EngineFile, now: EngineConfig
) -> SearchSpace:
    """The configurations that flags describe.

    Raises:
        UsageError: A lever, a value or an engine is unknown, or there is nothing to search.
    """
    from agentrt.base.engine_selection import named_engine
    from agentrt.base.engines.engine_file import DEFAULT_ROLE, EMBEDDED
    from agentrt.lab.tuning.candidates import search_space
    from agentrt.lab.tuning.levers import read_levers

    name = engine or file.roles.get(DEFAULT_ROLE, EMBEDDED)
    default = now if name == EMBEDDED else named_engine(name, file)
    return search_space(read_levers(lever, models, file, default), file, now, name)
