"""Tools: schemas that can be built, and descriptions for the model that is to call them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agentrt.base.errors import record_of
from agentrt.cli.checks.finding import Finding, error_finding
from agentrt.program.tool import Tool


def tool_findings(tools: Iterable[Tool[..., Any]]) -> Iterator[Finding]:
    """Tools without a schema, or without a docstring."""
    for one in tools:
        spec = one.spec
        try:
            schema = spec.schema
        except Exception as error:  # any of pydantic's, too
            yield error_finding("tool", record_of(error), spec.where)
            continue
        if not schema.description:
            what = f"tool {one.name} has no docstring: a model sees its name and arguments alone"
            yield Finding("warning", "tool", spec.where, what, "say in a line what it gives")
