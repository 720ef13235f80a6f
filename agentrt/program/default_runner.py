"""The slot for the function that `Program.run` calls; `agentrt/__init__` fills it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrt.base.engine_selection import EngineSelection
from agentrt.base.errors import InternalError

Runner = Callable[[Any, tuple[Any, ...], dict[str, Any], EngineSelection | None], Any]
_slot: list[Runner] = []


def set_default_runner(runner: Runner) -> None:
    """Set the function that `Program.run` calls with the program, its arguments and an engine."""
    _slot[:] = [runner]


def default_runner() -> Runner:
    """The function that `Program.run` calls.

    Raises:
        InternalError: None has been set.
    """
    if not _slot:
        raise InternalError("no default runner is set", hint="import agentrt, not a part of it")
    return _slot[0]
