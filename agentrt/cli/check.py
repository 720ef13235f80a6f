"""`agentrt check`: faults of programs that can be found without a model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentrt.cli.completion import program_names

if TYPE_CHECKING:
    from agentrt.cli.checks.finding import Finding

SCHEMA = "agentrt.check/1"
FOUND = 1


def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:FN]",
            help="A Python file; a program in it, else all of them.",
            autocompletion=program_names,
        ),
    ],
    run: Annotated[
        bool,
        typer.Option(
            "--run/--no-run",
            help="Also run each program once, on an engine that gives the shortest answer of each "
            "type. Tools that write are not called.",
        ),
    ] = True,
    args: Annotated[
        str | None,
        typer.Option(
            "--args", metavar="JSON|@FILE|-", help="Arguments of that run; else made up ones."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One agentrt.check/1 object.")] = False,
) -> int:
    """Check a program without a model: types, grammars, tools, prompts, one run.

    Each finding is a line: place, what is wrong, how to mend it. Exit codes: 0 no errors, perhaps
    warnings; 1 errors; 2 wrong flag, argument or file.
    """
    from agentrt.cli.results_alone import results_alone

    with results_alone() as results:
        findings = sorted(set(_findings(target, run=run, args=args)), key=_order)
        results.write(_shown(target, findings, as_json=as_json) + "\n")
        results.flush()
    return FOUND if _has_errors(findings) else 0


def _shown(target: str, findings: Sequence[Finding], *, as_json: bool) -> str:
    if not as_json:
        return "\n".join(one.line() for one in findings) or f"{target}: nothing was found"
    found: dict[str, Any] = {"schema": SCHEMA, "target": target, "ok": not _has_errors(findings)}
    found["findings"] = [one.as_dict() for one in findings]
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _has_errors(findings: Sequence[Finding]) -> bool:
    return any(one.severity == "error" for one in findings)


def _findings(target: str, *, run: bool, args: str | None) -> Iterator[Finding]:
    from agentrt.base.errors import UsageError, record_of
    from agentrt.cli import target as targets
    from agentrt.cli.checks.finding import error_finding
    from agentrt.cli.checks.program_checks import program_findings
    from agentrt.cli.error_report import TRACEBACK_HINT, located

    file, name = targets.split(target)
    try:
        module = targets.load(file)
    except Exception as error:
        if not file.is_file() or (isinstance(error, UsageError) and file.suffix != ".py"):
            raise
        found = located(error, folder=file.resolve().parent)
        if found.hint == TRACEBACK_HINT:  # of a run: a check has no -v
            found = replace(found, hint=f"python {shlex.quote(str(file))} shows the traceback")
        yield error_finding("load", found, str(file))
        return
    programs = targets.programs_of(module)
    if not programs and not name:
        try:
            targets.chosen(file, name, programs)
        except UsageError as error:
            yield error_finding("load", record_of(error), str(file))
        return
    chosen = [targets.chosen(file, name, programs)] if name else programs.values()
    for program in chosen:
        yield from program_findings(program, module, file, run=run, args=args)


def _order(finding: Finding) -> tuple[str, int, str]:
    place = finding.as_dict()
    return place["file"], place["line"] or 0, finding.what
