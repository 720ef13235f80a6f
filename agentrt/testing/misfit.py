"""Misfits: scripted calls that the offered tools do not allow."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.segments import ToolSchema
from agentrt.testing.script import Call


def misfit(calls: Sequence[Call], tools: Sequence[ToolSchema]) -> str:
    """The fault of the first call that names no tool, or wrong arguments of one; "" without any.

    Args:
        calls: The scripted calls.
        tools: The tools that the request offers.

    Example:
        >>> from agentrt.testing import call
        >>> misfit([call("prize", symbol="IBM")], [ToolSchema("price", "", {})])
        "No tool 'prize' is offered here, only price"
    """
    by_name = {tool.name: tool for tool in tools}
    for one in calls:
        tool = by_name.get(one.name)
        if tool is None:
            offered = f"only {', '.join(by_name)}" if by_name else "nor any other"
            return f"No tool {one.name!r} is offered here, {offered}"
        taken = tool.parameters.get("properties")
        if taken is None:  # its schema says the arguments in another way
            continue
        takes = f"it takes {', '.join(taken) or 'none'}"
        for argument in one.arguments:
            if argument not in taken:
                return f"{one.name!r} has no argument {argument!r}: {takes}"
        for argument in tool.parameters.get("required", ()):
            if argument not in one.arguments:
                return f"{one.name!r} needs the argument {argument!r}: {takes}"
        asked = [name for name in taken if name in one.arguments]
        if asked != list(one.arguments):
            return f"Give the arguments of {one.name!r} in the tool's order: {', '.join(asked)}"
    return ""
