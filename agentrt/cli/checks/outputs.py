"""Outputs of generations: each type and grammar is compiled, as an engine would do it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError, record_of
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.cli.checks.finding import Finding, error_finding
from agentrt.program.code.source import FunctionSource
from agentrt.program.code.type_value import UNKNOWN, type_value
from agentrt.program.output import OutputSpec, calls_of, items_of, step_of, value_of
from agentrt.program.program import Program
from agentrt.program.static_scan import scan_program
from agentrt.program.tool import Tool
from agentrt.prompt.byte_vocabulary import byte_vocabulary

if TYPE_CHECKING:
    from agentrt.structured import CompiledConstraint

Site = tuple[ast.Call, FunctionSource]


def output_findings(program: Program[..., Any], calls: Iterable[Site]) -> Iterator[Finding]:
    """Outputs that no engine can enforce.

    A type that the code writes out is checked where it stands. Of tools with bound arguments, and
    of types behind a variable, only the names are known: their faults are told of the program.
    """
    told: set[str] = set()
    for call, source in calls:
        where = source.where(call)
        try:
            output = _output(call, source)
            if output is not None and output.constraint is not None:
                compiled(output.constraint)
        except Exception as error:  # what the call itself will raise
            told.add(str(error))
            yield _finding(error, where)
    for constraint in scan_program(program).constraints:
        try:
            compiled(constraint)
        except AgentrtError as error:
            if str(error) not in told:
                yield _finding(error, program.site)


def compiled(constraint: ConstraintSpec) -> CompiledConstraint:
    """The constraint for a vocabulary of bytes, which every engine's can spell.

    Raises:
        ConstraintError: No engine can enforce it.
    """
    from agentrt.structured import compile_constraint

    return compile_constraint(constraint, byte_vocabulary(), JSON_ARRAY_FRAME)


def _finding(error: Exception, where: str) -> Finding:
    found = error_finding("output", record_of(error))
    return Finding(found.severity, found.rule, where, found.what, found.fix)


def _output(call: ast.Call, source: FunctionSource) -> OutputSpec | None:
    """The output that a call asks for; None if only a run knows it."""
    if not isinstance(call.func, ast.Attribute):
        return None
    given = [type_value(one, source) for one in call.args]
    named = {one.arg: type_value(one.value, source) for one in call.keywords if one.arg}
    if any(one is UNKNOWN for one in given):
        return None
    match call.func.attr:
        case "generate" if given:
            return value_of(given[0], check=named.get("check") is True)
        case "each" if given:
            return items_of(given[0])
        case "calls" if _are_tools(given):
            return calls_of(tuple(given))
        case "step" if _are_tools(named.get("tools")):
            final = named.get("final", str)
            is_known = final is not UNKNOWN and named.get("text") is not True
            return step_of(tuple(named["tools"]), final) if is_known else None
    return None


def _are_tools(values: Any) -> bool:
    is_list = isinstance(values, list | tuple) and bool(values)
    return is_list and all(isinstance(one, Tool) for one in values)
