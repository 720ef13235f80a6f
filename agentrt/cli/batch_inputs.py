"""The records of `--batch`: one run a line, each with the number of its line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.cli.inputs import checked_object, require, typed_of
from agentrt.cli.parameters import Parameter
from agentrt.cli.values import from_json, read_source


@record
class RunInput:
    """The arguments of one run.

    Attributes:
        arguments: Arguments by name; empty if the line has an error.
        number: Number of its line in the file of the batch, from 1; 0 outside a batch.
        digest: Hash of everything that determines the arguments.
        error: Error of the line; None if it can run.
    """

    arguments: Mapping[str, Any]
    number: int = 0
    digest: str = ""
    error: UsageError | None = None


def batch_of(
    path: Path,
    parameters: Sequence[Parameter],
    flags: Mapping[str, Any],
    args: str | None = None,
    *,
    where: str,
) -> list[RunInput]:
    """The records of a file; flags and `--args` are defaults for each line.

    Raises:
        UsageError: The file cannot be read or is empty, or a default is wrong. A wrong line is the
            error of its record alone.
    """
    if args == "-" and str(path) == "-":
        raise UsageError(
            "--args and --batch cannot both be standard input", hint="give one of them a file"
        )
    text, _ = read_source("-" if str(path) == "-" else f"@{path}", where="--batch")
    shared = typed_of(parameters, flags, args, where=where)
    defaults = json.dumps([dict(flags), args], default=str)
    records: list[RunInput] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        digest = sha256(f"{defaults}\n{line.strip()}".encode()).hexdigest()[:16]
        try:
            given = _arguments_in(line, parameters, place=f"{path}:{number}")
            require(parameters, shared | given, where=f"{path}:{number}")
            records.append(RunInput(shared | given, number, digest))
        except UsageError as error:
            records.append(RunInput({}, number, digest, error))
    if not records:
        raise UsageError(f"{path} has no inputs", hint="write one JSON object a line")
    return records


def _arguments_in(line: str, parameters: Sequence[Parameter], *, place: str) -> dict[str, Any]:
    """The arguments that one line gives.

    Raises:
        UsageError: The line is not JSON, or does not fit the parameters.
    """
    known = {one.name: one for one in parameters}
    try:
        given = checked_object(parameters, json.loads(line), place, where=place)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{place} is not JSON: {error}", hint="write one JSON object a line", where=place
        ) from None
    return {name: from_json(known[name], one, where=place) for name, one in given.items()}
