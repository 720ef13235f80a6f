"""Tools: schemas that can be built, and descriptions for the model that is to call them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from agentrt.base.errors import UsageError, record_of
from agentrt.cli.checks.finding import Finding, error_finding
from agentrt.program.tool import Tool


def tool_findings(tools: Iterable[Tool[..., Any]], bound: frozenset[str]) -> Iterator[Finding]:
    """Tools without a schema, or without a docstring.

    Args:
        tools: The tools.
        bound: Parameters that code binds, of whichever tool: models do not see them.
    """
    for one in tools:
        spec = one.spec
        try:
            schema = spec.schema
        except Exception as error:  # any of pydantic's, too
            if _is_whole_when_bound(one, bound):
                continue
            yield error_finding("tool", record_of(error), spec.where)
            continue
        if not schema.description:
            what = f"tool {one.name} has no docstring: a model sees its name and arguments alone"
            yield Finding("warning", "tool", spec.where, what, "say in a line what it gives")


def bound_parameters(module: ModuleType) -> frozenset[str]:
    """Names that the code of a module gives to `bind`."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, SyntaxError, TypeError):
        return frozenset()
    return frozenset(
        keyword.arg
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "bind"
        for keyword in call.keywords
        if keyword.arg is not None
    )


def _is_whole_when_bound(one: Tool[..., Any], bound: frozenset[str]) -> bool:
    """Whether a tool has a schema without the parameters that are bound."""
    spec = one.spec
    for name in sorted(bound):
        try:
            spec = spec.bind(**{name: None})
        except UsageError:  # of another tool
            continue
    try:
        _ = spec.schema
    except Exception:
        return False
    return True
