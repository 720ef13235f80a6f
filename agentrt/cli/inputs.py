"""The arguments of a run, from flags, `--args` and the lines of `--batch`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.cli.parameters import Parameter, metavar
from agentrt.cli.values import from_flag, from_json, read_json, read_source


def arguments_of(
    parameters: Sequence[Parameter], flags: Mapping[str, Any], args: str | None, *, where: str
) -> dict[str, Any]:
    """The arguments of one run; a flag overrides the same name in `--args`.

    Args:
        parameters: The program's parameters.
        flags: Given values, by parameter.
        args: Value of `--args`: JSON, `@file` or `-`.
        where: Location of the program, for errors.

    Raises:
        UsageError: An argument is unknown, malformed or missing.
    """
    values = typed_of(parameters, flags, args, where=where)
    require(parameters, values, where=where)
    return values


def typed_of(
    parameters: Sequence[Parameter], flags: Mapping[str, Any], args: str | None, *, where: str
) -> dict[str, Any]:
    """The arguments on the command line, in `--args` and in flags."""
    known = {one.name: one for one in parameters}
    given = checked_object(parameters, read_json(args, where="--args"), "--args") if args else {}
    values = {name: from_json(known[name], value, where=where) for name, value in given.items()}
    return values | {name: from_flag(known[name], one, where=where) for name, one in flags.items()}


def batch_of(
    path: Path,
    parameters: Sequence[Parameter],
    flags: Mapping[str, Any],
    args: str | None = None,
    *,
    where: str,
) -> list[dict[str, Any]]:
    """The arguments of each line's run; flags and `--args` are defaults for each line.

    Raises:
        UsageError: The file or one of its lines cannot be read; checked before any run.
    """
    if args == "-" and str(path) == "-":
        raise UsageError(
            "--args and --batch cannot both be standard input", hint="give one of them a file"
        )
    text, _ = read_source("-" if str(path) == "-" else f"@{path}", where="--batch")
    known = {one.name: one for one in parameters}
    shared = typed_of(parameters, flags, args, where=where)
    runs: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            given = checked_object(parameters, json.loads(line), place, where=place)
        except ValueError as error:
            raise UsageError(
                f"{place} is not JSON: {error}", hint="write one JSON object a line", where=place
            ) from None
        values = {name: from_json(known[name], one, where=place) for name, one in given.items()}
        require(parameters, shared | values, where=place)
        runs.append(shared | values)
    if not runs:
        raise UsageError(f"{path} has no inputs", hint="write one JSON object a line")
    return runs


def checked_object(
    parameters: Sequence[Parameter], given: Any, source: str, *, where: str = ""
) -> dict[str, Any]:
    """Check that `given` is an object with parameters as keys."""
    if not isinstance(given, dict):
        raise UsageError(
            f"{source} is no JSON object but {type(given).__name__}",
            hint='give {"parameter": value, ...}',
            where=where,
        )
    names = [one.name for one in parameters]
    for key in given:
        if key not in names:
            close = get_close_matches(key, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {listed(names)}"
            raise UsageError(
                f"{source} names {key!r}, which the program has not", hint=hint, where=where
            )
    return given


def require(parameters: Sequence[Parameter], values: Mapping[str, Any], *, where: str) -> None:
    """Check that no required argument is missing."""
    missing = [one for one in parameters if one.required and one.name not in values]
    if missing:
        first = missing[0]
        raise UsageError(
            f"the program needs {listed(one.name for one in missing)}",
            hint=f"give {first.flag} {metavar(first.form)}, or --args '{{\"{first.name}\": ...}}'",
            where=where,
        )


def listed(names: Iterable[str]) -> str:
    """Names joined for a sentence."""
    return ", ".join(f"`{name}`" for name in names) or "no parameters"
