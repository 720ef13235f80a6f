"""Signatures of programs: what the command line and readers need to know of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_type_hints

from agentrt.base.errors import AgentrtError, record_of
from agentrt.cli.checks.finding import Finding, error_finding
from agentrt.cli.parameters import parameters_of
from agentrt.cli.values import adapter


def signature_findings(program: Any) -> Iterator[Finding]:
    """Parameters without a type or with one that no flag can give, and a missing return type."""
    where = program.site
    function = inspect.unwrap(program)
    try:
        get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        what = f"a type in the signature of {program.name} cannot be read: {error}"
        yield Finding("error", "signature", where, what, "import what it names")
        return
    try:
        parameters = parameters_of(program)
    except AgentrtError as error:
        yield error_finding("signature", record_of(error), where)
        return
    written = inspect.signature(function)
    for one in parameters:
        if written.parameters[one.name].annotation is inspect.Parameter.empty:
            what = f"parameter `{one.name}` of {program.name} has no type and is taken as text"
            yield Finding("warning", "signature", where, what, f"write `{one.name}: TYPE`")
        try:
            adapter(one, where)
        except AgentrtError as error:
            found = record_of(error)
            if one.required:
                yield error_finding("signature", found, where)
            else:
                yield error_finding("signature", found, where, "note")
    if written.return_annotation is inspect.Signature.empty:
        what = f"{program.name} has no return type, so that readers and type checkers know none"
        yield Finding("warning", "signature", where, what, "write `-> TYPE`")
