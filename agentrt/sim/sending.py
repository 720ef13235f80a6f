"""A generation of a simulated program on its way, and what a turn has to say to an engine."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.ids import RequestId
from agentrt.sim.program_run import ProgramRun
from agentrt.sim.token_ids import PromptIds

Act = Callable[[float], None]
"""Does something at an instant."""


class Sending:
    """A generation on its way.

    Attributes:
        run: Whose.
        name: Of the call.
        prompt: Its ids, as far as they were given to the engine.
    """

    __slots__ = ("name", "prompt", "request_id", "run", "stopped")

    def __init__(
        self, run: ProgramRun, name: str, request_id: RequestId, prompt: PromptIds
    ) -> None:
        self.run = run
        self.name = name
        self.request_id = request_id
        self.prompt = prompt
        self.stopped = False


class Said:
    """What a turn of the runtime has to say to its engine, which hears it together."""

    def __init__(self) -> None:
        self._acts: list[Act] = []

    def say(self, act: Act) -> None:
        """One thing more."""
        self._acts.append(act)

    def take(self) -> list[Act]:
        """All of it."""
        acts, self._acts = self._acts, []
        return acts
