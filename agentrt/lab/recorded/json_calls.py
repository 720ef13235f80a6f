"""Tool calls as JSON, in parts: what the form determines is given, names and values are free.

Keys come in the order of the schema, as a grammar made of it holds them. A key is given if all keys
of the tool are written. The character behind a value is free, since it ends the value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrt.lab.recorded.program import OutputPart


def json_calls(
    calls: Sequence[tuple[str, Mapping[str, Any]]], tools: Mapping[str, Sequence[str]]
) -> Iterator[OutputPart]:
    """A list of calls.

    Args:
        calls: Name and arguments of each call.
        tools: Names of the arguments of each tool that may be called.
    """
    for at, (name, arguments) in enumerate(calls):
        yield OutputPart(",") if at else OutputPart("[", given=True)
        yield from json_call(name, arguments, tools)
    yield OutputPart("]")


def json_call(
    name: str, arguments: Mapping[str, Any], tools: Mapping[str, Sequence[str]]
) -> Iterator[OutputPart]:
    """One call."""
    yield OutputPart('{"name":"', given=True)
    yield OutputPart(name, given=len(tools) == 1)
    yield OutputPart('","arguments":{', given=True)
    known = tools.get(name, ())
    whole = set(known) == set(arguments)
    names = [one for one in known if one in arguments] or list(arguments)
    for at, key in enumerate(names):
        yield OutputPart(f'"{key}":', given=whole)
        value = json.dumps(arguments[key], ensure_ascii=False, separators=(",", ":"))
        opened, rest = (value[0], value[1:]) if value[0] in '"[{' else ("", value)
        if opened:
            yield OutputPart(opened, given=True)
        is_last = at + 1 == len(names)
        ends = value[-1] in '"]}'  # a value that shows its own end
        behind = "}" if is_last else ","
        yield OutputPart(rest if ends else rest + behind)
        if ends:
            yield OutputPart(behind, given=whole)
    if not names:
        yield OutputPart("}", given=True)
    yield OutputPart("}", given=True)
