"""A judge: a program of the user's that scores a result, on a configuration of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.base.record import record

KIND = "judge"
INPUTS = ("result", "expected", "inputs")
"""Parameters that a judge may have: the result, the expected value, the inputs of the case."""

_KEYS = ("program", "config")


@record
class Judge:
    """A judge of a suite.

    Attributes:
        program: `FILE[:FN]`, the file as an absolute path.
        config: Configuration on which it runs, as for `--configs`.
    """

    program: str
    config: str


def read_judge(table: Mapping[str, object], folder: Path, *, where: str) -> Judge:
    """The judge that a table of `suite.toml` describes.

    Args:
        table: The table, with the kind `judge`.
        folder: Folder of the suite, beside which files are named.
        where: Place of the table, for errors.

    Raises:
        UsageError: A key is missing, unknown or no text.
    """
    for key, value in table.items():
        if key == "kind":
            continue
        if key not in _KEYS:
            raise UsageError(
                f"{where}: {key!r} is no key of the scorer {KIND}",
                hint=f"it takes {', '.join(_KEYS)}",
            )
        if not isinstance(value, str) or not value or "," in value:
            raise UsageError(f"{where}: {key}={value!r} is no text", hint=f'{key} = "..."')
    program, config = table.get("program"), str(table.get("config", "embedded"))
    if not isinstance(program, str):
        raise UsageError(
            f"{where}: the scorer {KIND} needs 'program'", hint='give program = "FILE.py:FN"'
        )
    own = folder.resolve() / config
    return Judge(str(folder.resolve() / program), str(own) if own.exists() else config)
