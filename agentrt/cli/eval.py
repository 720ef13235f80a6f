"""`agentrt eval`: a suite, or a text, under several configurations that are held together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.output_file import check_output
from agentrt.cli.suite_flags import Cases, Concurrency, Resume, Seed

if TYPE_CHECKING:
    from agentrt.lab.evaluation.engine_choice import EvaluationConfig
    from agentrt.lab.evaluation.judge import Judge
    from agentrt.lab.evaluation.limit import Limit


def evaluate(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A folder with suite.toml.")] = "",
    logits: Annotated[
        Path | None,
        typer.Option(
            "--logits", metavar="TEXT", help="Compare logits over this text, in place of a suite."
        ),
    ] = None,
    configs: Annotated[
        str,
        typer.Option(
            "--configs",
            metavar="A,B",
            help="Engines of agentrt.toml, addresses, checkpoints, .gguf or .toml files; A is the "
            "baseline.",
        ),
    ] = "embedded",
    cases: Cases = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=0, help="Only the first N cases, or chunks; 0 is all."
        ),
    ] = 0,
    chunk_tokens: Annotated[
        int,
        typer.Option(
            "--chunk-tokens",
            metavar="N",
            min=16,
            help="Tokens of a chunk of --logits; the second half of each is scored.",
        ),
    ] = 512,
    judge: Annotated[
        str,
        typer.Option(
            "--judge",
            metavar="CONFIG",
            help="Configuration of the judges, in place of the suite's.",
        ),
    ] = "",
    concurrency: Concurrency = 4,
    seed: Seed = 0,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="LIMIT",
            help="As accuracy<-1%, latency_p95>+10%, cost>0.5 or kl_mean>0.01; may be repeated. "
            "Exit code 6.",
        ),
    ] = None,
    resume: Resume = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write figures and results.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with plots.")
    ] = None,
) -> int:
    """Run a suite of cases under several configurations, and compare them."""
    check_subject(suite, logits, {"--cases": cases, "--resume": resume})
    for flag, file in {"--json": json_file, "--html": html_file}.items():
        if file is not None:
            check_output(file, flag)
    if logits is not None:
        from agentrt.cli.eval_logits import evaluate_logits

        return evaluate_logits(
            logits,
            configs,
            chunk_tokens=chunk_tokens,
            limit=limit,
            seed=seed,
            fail_if=fail_if or (),
            json_file=json_file,
            html_file=html_file,
        )
    import anyio

    from agentrt import embedded
    from agentrt.base.engines.engine_file import engine_file
    from agentrt.cli.eval_output import write_report
    from agentrt.cli.evaluation import Evaluation
    from agentrt.lab.evaluation.config_summary import crossed, summarise
    from agentrt.lab.evaluation.engine_choice import read_configs
    from agentrt.lab.evaluation.evaluation_report import EvaluationReport
    from agentrt.lab.evaluation.limit import parse_limit
    from agentrt.lab.evaluation.suite import read_suite

    limits = [parse_limit(one) for one in fail_if or ()]
    read = partial(read_configs, file=engine_file(os.environ), model=embedded.path())
    chosen = read(configs)
    check_limits(limits, len(chosen))
    check_currencies(limits, chosen)
    found = read_suite(Path(suite), scoring_function, cases=cases)
    if limit:
        found = replace(found, cases=found.cases[:limit])
    judging = judge_configs(found.judges, judge, read)
    check_models([*chosen, *judging])
    evaluation = Evaluation(found, chosen, judging, resume, concurrency=concurrency, seed=seed)
    try:
        anyio.run(evaluation.perform)
    finally:
        evaluation.close()
    results = evaluation.results()
    summaries = summarise(results, seed)
    report = EvaluationReport(found.name, results, summaries, crossed(summaries, limits), seed)
    return write_report(report, json_file, html_file)


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


def judge_configs(
    judges: Sequence[Judge], given: str, read: Callable[[str], list[EvaluationConfig]]
) -> list[EvaluationConfig]:
    """The configuration of each judge: the one that is given, or its own.

    Raises:
        UsageError: The text names none, or several, or there is no judge.
    """
    if given and not judges:
        raise UsageError(
            f"--judge {given}: the suite has no judge",
            hint='leave it, or give the suite a scorer with kind = "judge"',
        )
    found = [read(given or one.config) for one in judges]
    if any(len(one) != 1 for one in found):
        raise UsageError(f"--judge {given!r} names several", hint="a judge has one configuration")
    return [one for (one,) in found]


def check_models(configs: Sequence[EvaluationConfig]) -> None:
    """Check that the models of embedded engines can be read, before any case runs.

    Raises:
        ModelInvalid: A file is missing, cut off or malformed.
    """
    from agentrt.prompt.codec import Codec

    settings = (one.settings for one in configs)
    for path in dict.fromkeys(one.model_path for one in settings if isinstance(one, EngineConfig)):
        Codec.load(path)


def check_subject(suite: str, logits: Path | None, of_suites: Mapping[str, object]) -> None:
    """Check that there is a suite or a text, and no flag of the other.

    Raises:
        UsageError: There are both or none, or a flag of suites beside a text.
    """
    if bool(suite) == (logits is not None):
        given = "both a suite and --logits" if suite else "nothing to run"
        raise UsageError(
            f"agentrt eval was given {given}", hint="give agentrt eval SUITE, or --logits TEXT"
        )
    wrong = [flag for flag, value in of_suites.items() if value is not None]
    if logits is not None and wrong:
        raise UsageError(f"{wrong[0]} is for suites", hint="leave it beside --logits")


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
