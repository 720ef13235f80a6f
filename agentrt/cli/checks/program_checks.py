"""All checks of one program."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from agentrt.base.errors import UsageError, record_of
from agentrt.cli.checks.finding import Finding, error_finding
from agentrt.cli.checks.outputs import output_findings
from agentrt.cli.checks.prompts import prefix_findings
from agentrt.cli.checks.signatures import signature_findings
from agentrt.cli.checks.tool_servers import tool_server_findings
from agentrt.cli.checks.tools import bound_parameters, tool_findings
from agentrt.cli.inputs import typed_of
from agentrt.cli.parameters import REQUIRED, location_of, parameters_of
from agentrt.program.code.code_walk import CodeWalk
from agentrt.program.code.source import function_source
from agentrt.program.program import Program
from agentrt.program.tool import Tool


def program_findings(
    program: Program[..., Any], module: ModuleType, file: Path, *, run: bool, args: str | None
) -> Iterator[Finding]:
    """Findings of a program and of the tools of its module.

    Args:
        program: The program.
        module: Module of the program.
        file: File of the module.
        run: Whether to run it once.
        args: Arguments of that run as JSON; None makes them up.
    """
    found = list(signature_findings(program))
    tools = list(tools_of(module))
    found += tool_findings(tools, bound_parameters(module))
    try:
        source = function_source(program.fn)
    except UsageError as error:
        found.append(error_finding("load", record_of(error), program.site))
        yield from found
        return
    walk = CodeWalk(source)
    walk.read({}, result="")
    found += output_findings(program, walk.calls.values())
    sources = {id(one.tree): one for one in (source, *(one for _, one in walk.calls.values()))}
    found += prefix_findings(sources.values())
    found += tool_server_findings(sources.values())
    yield from found
    if run and not any(one.severity == "error" for one in found):
        roles = _roles(walk)
        yield from _trial(program, tools, roles, file, args)


def tools_of(module: ModuleType) -> Iterator[Tool[..., Any]]:
    """Tools of a module, alone or in a list; each once."""
    seen: set[int] = set()
    for value in vars(module).values():
        values: Iterable[Any] = value if isinstance(value, tuple | list) else (value,)
        for one in values:
            if isinstance(one, Tool) and id(one.spec) not in seen:
                seen.add(id(one.spec))
                yield one


def _roles(walk: CodeWalk) -> list[str]:
    """Roles of models that the code names."""
    return [
        str(keyword.value.value)
        for call, _ in walk.calls.values()
        for keyword in call.keywords
        if keyword.arg == "model" and isinstance(keyword.value, ast.Constant)
    ]


def _trial(
    program: Program[..., Any],
    tools: list[Tool[..., Any]],
    roles: list[str],
    file: Path,
    args: str | None,
) -> Iterator[Finding]:
    from agentrt.cli.checks.trial_run import made_up_arguments, run_findings

    parameters = parameters_of(program)
    given: Mapping[str, Any] = {}
    if args is not None:
        given = typed_of(parameters, {}, args, where=location_of(program))
    try:
        arguments = made_up_arguments(parameters, given)
    except Exception:
        unknown = ", ".join(one.name for one in parameters if one.default is REQUIRED)
        what = f"{program.name} was not run: there is no made-up value for its {unknown}"
        yield Finding("note", "run", program.site, what, "give --args JSON")
        return
    yield from run_findings(program, arguments, tools, roles, file.resolve().parent)
