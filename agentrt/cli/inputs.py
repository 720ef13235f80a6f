"""The arguments of a run, from flags and `--args`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.cli.parameters import Parameter, metavar
from agentrt.cli.values import from_flag, from_json, read_json


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
