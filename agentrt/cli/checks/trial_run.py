"""One run of a program on a scripted engine: the shortest answer of each type, virtual time.

Tools that write are not called: a value of their return type stands for their result. The program
is not run if it has a tool that changes the world in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from agentrt.base.config import RunConfig
from agentrt.base.errors import (
    BackendError,
    ConstraintError,
    NoRun,
    NotYetKnown,
    ProgramError,
    RunTooLarge,
    Truncated,
    Unsupported,
    UsageError,
)
from agentrt.base.exception_groups import root_of
from agentrt.cli.checks.finding import Finding, error_finding
from agentrt.cli.checks.shortest_answers import FREE_TEXT, ShortestBackend, shortest_value
from agentrt.cli.error_report import located
from agentrt.cli.parameters import REQUIRED, Parameter, bare, is_chat
from agentrt.program import Program, Tool, chat
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing import LoopClock, run_virtual
from agentrt.tools import WriteCall

MOST_NODES = 500
FAULTS = (ConstraintError, NoRun, NotYetKnown, UsageError)
"""Errors that no answer of a model would mend."""
MOST_S = 3600.0  # of virtual time


def run_findings(
    program: Program[..., Any],
    arguments: Mapping[str, Any],
    tools: Iterable[Tool[..., Any]],
    roles: Sequence[str],
    folder: Path,
) -> list[Finding]:
    """Errors that the program makes, whatever a model answers.

    Args:
        program: The program.
        arguments: Arguments by name.
        tools: Tools that the program may call, as far as known.
        roles: Roles of models that it names.
        folder: Folder of the program, for the place of an error.
    """
    changing = [one.name for one in tools if one.spec.effects == "idempotent"]
    if changing:
        what = f"{program.name} was not run: its tool {changing[0]} may change something"
        return [Finding("note", "run", program.site, what, "test it with a stand-in for the tool")]
    try:
        run_virtual(_run, program, arguments, roles)
    except Exception as error:
        return [_finding(error, program, folder)]
    return []


def made_up_arguments(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a program: those given, defaults left out, and made up ones for the rest.

    Raises:
        Exception: No value of a parameter's type can be made up.
    """
    found = dict(given)
    for one in parameters:
        if one.name in given or one.default is not REQUIRED:
            continue
        if is_chat(one.form):
            found[one.name] = chat().user(FREE_TEXT)
        else:
            found[one.name] = FREE_TEXT if bare(one.form) is str else shortest_value(one.form)
    return found


async def _run(
    program: Program[..., Any], arguments: Mapping[str, Any], roles: Sequence[str]
) -> None:
    clock = LoopClock()
    backend = ShortestBackend(clock)
    engines = dict.fromkeys(dict.fromkeys(("default", *roles)), (backend, None))
    config = RunConfig(max_nodes=MOST_NODES, deadline_s=MOST_S)
    options = RunOptions(on_tool=_made_up, on_emit=_ignore, on_ask=_answer)
    async with Runtime(engines, clock=clock, config=config) as runtime:
        await runtime.with_options(options).run(program, **arguments)


async def _made_up(call: WriteCall, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """A value of the return type of a tool that changes the world; the tool is not called."""
    is_of_server = call.spec.schemas is not None  # known now, not before the run
    if call.spec.effects != "write" and not (is_of_server and call.spec.effects == "idempotent"):
        return await make()
    try:
        form = get_type_hints(call.spec.fn, include_extras=True).get("return", str)
        return FREE_TEXT if form is str else shortest_value(form)
    except Exception:  # a type that has no JSON form
        return FREE_TEXT


def _answer(question: Any) -> Any:
    return shortest_value(question.form)


def _ignore(text: str) -> None:
    return


def _finding(error: BaseException, program: Program[..., Any], folder: Path) -> Finding:
    first = root_of(error)
    record = located(error, folder=folder)
    place = record.where.partition(" in ")[0].partition(",")[0] or program.site
    if isinstance(first, RunTooLarge):
        what = f"{program.name} did not end within {MOST_NODES} nodes"
        fix = "bound its loops; a model that never stops calling tools would go on like this"
        return Finding("warning", "run", place, what, fix)
    if isinstance(first, Truncated):
        what = "max_tokens leaves no room for the shortest answer"
        return Finding("warning", "run", place, what, "raise max_tokens, or shorten the type")
    if isinstance(first, Unsupported | BackendError):
        return error_finding("run", record, program.site, "note")
    if isinstance(first, FAULTS) or type(first) is ProgramError:
        return error_finding("run", record, program.site)
    kind = f"{type(first).__name__}: "
    what = f"with made-up answers {program.name} ends with {kind}{record.message}"
    fix = "check what a model answers before it is used, or give --args"
    return Finding("warning", "run", place, what, fix)
