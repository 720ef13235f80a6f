"""Tool calls held against the expected ones: names, or names and arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from agentrt.base.errors import UsageError

PARTS = ("whole", "names")
"""Parts of a call that can be compared."""


def calls_score(
    got: Any, wanted: Any, part: str, ordered: bool, text_of: Callable[[Any], str]
) -> float:
    """How far calls are the expected ones: twice those in common, as a share of both lists.

    Args:
        got: The calls of a result: a list of `{"name": ..., "arguments": {...}}`.
        wanted: The expected ones, in the same form.
        part: "whole" for names and arguments, "names" for names alone.
        ordered: Whether the n-th call has to be the n-th expected one; else any order is right.
        text_of: One text for equal JSON values.

    Raises:
        UsageError: The expected value is no list of calls.

    Example:
        >>> from json import dumps
        >>> plan = [{"name": "add", "arguments": {"a": 1}}, {"name": "stop", "arguments": {}}]
        >>> calls_score(plan[:1], plan, "names", False, dumps)
        0.6666666666666666
    """
    expected = _parts(wanted, part, text_of)
    if expected is None:
        raise UsageError(
            f"the expected value {wanted!r} is no list of calls",
            hint='write [{"name": "...", "arguments": {...}}, ...]',
        )
    found = _parts(got, part, text_of)
    if found is None:
        return 0.0
    if not found and not expected:
        return 1.0
    if ordered:
        common = sum(a == b for a, b in zip(found, expected, strict=False))
    else:
        common = (Counter(found) & Counter(expected)).total()
    return 2 * common / (len(found) + len(expected))


def _parts(calls: Any, part: str, text_of: Callable[[Any], str]) -> list[str] | None:
    """A text for each call; None if they are no calls."""
    if not isinstance(calls, list):
        return None
    found = []
    for call in calls:
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
            return None
        arguments = call.get("arguments", {})
        if not isinstance(arguments, Mapping):
            return None
        found.append(call["name"] if part == "names" else f"{call['name']} {text_of(arguments)}")
    return found
