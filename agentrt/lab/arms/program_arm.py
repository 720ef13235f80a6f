"""The arms of the compound bench: a client that plays programs, and the server it speaks to.

A client is a process that answers lines of JSON (`lab/arms/arm_process.py`):

    {"do": "open", "settings": {...}}          -> {"about": {...}}
    {"do": "play", "programs": [ProgramLine]}  -> {"samples": [ProgramTold], "steps": [...]}

`open` connects and says who is there; its settings hold `url` and `model` where there is a
server. `play` begins each program `at_s` after its own beginning, all of them in one event loop,
and answers when the last has ended; `steps` (a `StepTold` for each of the engine's) is there where
the client sees them. Anything that goes wrong is answered as {"error": "..."}.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentrt.lab.arms.arm_process import ArmChild
from agentrt.lab.arms.wire import ProgramLine, ProgramTold, StepTold
from agentrt.lab.errors import BenchFailed

OURS = "agentrt"
CLIENTS = ("asyncio", "langgraph")
SERVERS = ("llama-server", "transformers", "ours")


class ServerArm(Protocol):
    """A process that serves chat completions on this machine, and stands still when told to."""

    @property
    def url(self) -> str:
        """Where, such as `http://127.0.0.1:8123/v1`."""
        ...

    @property
    def model(self) -> str:
        """What requests call its model."""
        ...

    @property
    def about(self) -> Mapping[str, Any]:
        """Its command, version, threads and cache, for the result."""
        ...

    def halt(self) -> None:
        """Stop the process and all it has started, by a signal. Idempotent."""
        ...

    def resume(self) -> None:
        """Let it go on. Idempotent."""
        ...

    def close(self) -> None:
        """End it. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class CompoundArm:
    """One way of playing programs.

    Attributes:
        client: `agentrt`, or the library that a plain client is written with.
        server: What it speaks to over HTTP; "" where the engine is its own.
        command: Of the client's process.
        settings: What that is opened with.
        env: Added to its environment.
    """

    client: str
    server: str
    command: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As `--arms` takes it, such as `asyncio+llama-server`."""
        return f"{self.client}+{self.server}" if self.server else self.client


class OpenPlayer:
    """An arm whose processes run; they stand still unless it is their turn.

    Args:
        arm: Which.
        server: That it speaks to, halted; other players may share it. None where there is none.

    Attributes:
        about: What client and server say of themselves.
        steps: Of the engine during the last play, where the client sees them.
    """

    def __init__(self, arm: CompoundArm, server: ServerArm | None) -> None:
        self.arm = arm
        self._server = server
        self._child = ArmChild(arm.name, arm.command, {**os.environ, **arm.env})
        settings = dict(arm.settings)
        if server is not None:
            settings |= {"url": server.url, "model": server.model}
        told = self._asked({"do": "open", "settings": settings})
        self.steps: list[StepTold] = []
        self.about: Mapping[str, Any] = {
            **told["about"],
            **({"server": dict(server.about)} if server is not None else {}),
        }

    def play(self, programs: Sequence[ProgramLine]) -> list[ProgramTold]:
        """Play programs from their arrival to the end of the last.

        Raises:
            BenchFailed: The arm could not, or a program of it failed.
        """
        told = self._asked({"do": "play", "programs": list(programs)})
        samples: list[ProgramTold] = told["samples"]
        self.steps = told.get("steps", [])
        for sample in samples:
            if sample["error"]:
                raise BenchFailed(f"{self.arm.name}: {sample['name']}: {sample['error']}")
        return samples

    def close(self) -> None:
        """End the client; the server is closed by whoever opened it. Idempotent."""
        self._child.close()

    def _asked(self, question: Mapping[str, Any]) -> dict[str, Any]:
        if self._server is not None:
            self._server.resume()
        try:
            told = self._child.ask(question)
        finally:
            if self._server is not None:
                self._server.halt()
        if told.get("error"):
            self._child.close()
            raise BenchFailed(f"{self.arm.name} failed: {told['error']}")
        return told
