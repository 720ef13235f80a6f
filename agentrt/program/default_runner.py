"""The slot for what `Program.run` calls; the package's top fills it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrt.base.errors import InternalError

Runner = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_slot: list[Runner] = []


def set_default_runner(runner: Runner) -> None:
    """Say what `Program.run` calls, with the program and its arguments."""
    _slot[:] = [runner]


def default_runner() -> Runner:
    """What `Program.run` calls.

    Raises:
        InternalError: Nobody has said so.
    """
    if not _slot:
        raise InternalError("no default runner is set", hint="import agentrt, not a part of it")
    return _slot[0]
