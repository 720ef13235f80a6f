"""The loop around an engine core, in a process of its own (or in a thread, for tests).

Run as `python -m agentrt.engine.process.main FD OWNER_PID`: the environment is set by whoever
starts it,
before torch loads here. Commands come as frames over the socket, one report goes back a step.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Protocol

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError, ErrorRecord, ModelInvalid, record_of
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.ids import RequestId
from agentrt.engine.process.channel import Channel, OwnerGone
from agentrt.engine.process.messages import (
    Advise,
    Cancel,
    Command,
    Grow,
    LoadEngine,
    Note,
    Ping,
    Pong,
    Prewarm,
    Quit,
)
from agentrt.protocol.backend import Capabilities, GenerateRequest, HoleFill, KvHint, SchedulingInfo
from agentrt.protocol.step_output import End, StepDone

_NOTHING_TO_DO_S = 0.001
_READY_S = 1.0
"""What is compiled ahead may hold up the start for so long."""
_LAST_WORDS_S = 2.0
_PR_SET_PDEATHSIG = 1


class Core(Protocol):
    """What the loop drives: synchronous, one thread."""

    @property
    def capabilities(self) -> Capabilities: ...
    def submit(self, request: GenerateRequest) -> None: ...
    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None: ...
    def update(self, updates: tuple[SchedulingInfo, ...]) -> None: ...
    def cancel(self, request_id: RequestId, reason: str) -> None: ...
    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None = None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None: ...
    def prewarm(self, constraints: tuple[ConstraintSpec, ...], wait_s: float = 0.0) -> None: ...
    def has_work(self) -> bool: ...
    def step(self) -> StepDone | None: ...
    def close(self) -> None: ...


class EngineLoop:
    """One engine core behind one link."""

    def __init__(self, core: Core, link: Channel) -> None:
        self._core = core
        self._link = link
        self._open: set[RequestId] = set()

    def prepare(self) -> None:
        """What was told of ahead while the core was loading is ready before anybody asks for it."""
        arrived = self._link.receive(0)
        while arrived and isinstance(first := arrived[0], Prewarm):
            self._core.prewarm(first.constraints, _READY_S)
            del arrived[0]
        self._link.put_back(arrived)

    def serve(self) -> None:
        """Until the owner says quit.

        Raises:
            OwnerGone: The owner's end closed without it.
        """
        wait_s: float | None = None
        try:
            while self._obey(self._link.receive(wait_s)):
                wait_s = self._advance()
            self._quit()
        finally:
            self._core.close()

    def _advance(self) -> float | None:
        """One step; how long to wait for commands before the next."""
        if not self._core.has_work():
            return None
        done = self._core.step()
        if done is None:
            return _NOTHING_TO_DO_S
        self._tell(done)
        return 0

    def _obey(self, commands: Iterable[Command]) -> bool:
        """False when told to quit."""
        for command in commands:
            if isinstance(command, Quit):
                return False
            self._do(command)
        return True

    def _do(self, command: Command) -> None:
        core = self._core
        match command:
            case GenerateRequest():
                self._submit(command)
            case Grow(request_id, fill):
                if request_id in self._open:
                    core.fill_hole(request_id, fill)
            case Note(facts):
                known = tuple(fact for fact in facts if fact.request_id in self._open)
                if known:
                    core.update(known)
            case Cancel(request_id, reason):
                if request_id in self._open:
                    core.cancel(request_id, reason)
            case Advise(token_ids, hint, until_s, from_tokens, cache_salt):
                core.hint(token_ids, hint, until_s, from_tokens, cache_salt)
            case Prewarm(constraints):
                core.prewarm(constraints)
            case Ping():
                self._link.send(Pong())

    def _submit(self, request: GenerateRequest) -> None:
        self._open.add(request.request_id)
        try:
            self._core.submit(request)
        except AgentrtError as error:
            end = End(request.request_id, "failed", error=record_of(error))
            self._tell(StepDone(None, (), (end,)))

    def _tell(self, done: StepDone) -> None:
        self._open.difference_update(end.request_id for end in done.ends)
        self._link.send(done)

    def _quit(self) -> None:
        """Cancel what is under way and let its ends go out."""
        for request_id in tuple(self._open):
            self._core.cancel(request_id, "the engine is being closed")
        while self._open and self._core.has_work():
            done = self._core.step()
            if done is not None:
                self._tell(done)
        self._link.drain(_LAST_WORDS_S)


def host(end: socket.socket, clock: Clock, *, loaded: Callable[[], None] = lambda: None) -> int:
    """Load and serve over `end`; the exit code.

    Args:
        end: Of the connection to its owner.
        clock: That it reads.
        loaded: Called once there is nothing more to load, before its owner is told.
    """
    link = Channel(end)
    try:
        config = _config(link)
        core = load(config, clock)
        server = EngineLoop(core, link)
        server.prepare()
        loaded()
        link.send(core.capabilities)
        server.serve()
    except OwnerGone:
        return 0
    except Exception as error:  # whatever ends the engine is told to its owner
        if not isinstance(error, AgentrtError):
            traceback.print_exc()
        _last_words(link, record_of(error))
        return 1
    finally:
        link.close()
    return 0


def load(config: EngineConfig, clock: Clock) -> Core:
    """The engine; the only place from which its process reaches torch.

    Raises:
        ModelInvalid: The model cannot be loaded.
    """
    if not (config.model_path / "config.json").is_file():  # said before torch takes its seconds
        raise ModelInvalid(
            f"{config.model_path} is no model directory: it has no config.json",
            hint="Give a Hugging Face checkpoint directory with safetensors",
        )
    from agentrt.engine.core import EngineCore

    return EngineCore(config, clock)


def _config(link: Channel) -> EngineConfig:
    commands: list[Command] = []
    while not commands:
        commands = link.receive(None)
    first, *rest = commands
    if not isinstance(first, LoadEngine):
        raise TypeError(f"the first command is {type(first).__name__}, not Load")
    link.put_back(rest)
    return first.config


def _last_words(link: Channel, error: ErrorRecord) -> None:
    try:
        link.send(error)
        link.drain(_LAST_WORDS_S)
    except OwnerGone:
        return


def die_with(owner_pid: int) -> None:
    """Be killed when the owner's process ends, even in the middle of a forward (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner_pid:
        raise SystemExit(0)  # it ended before we could ask


def main(arguments: list[str]) -> int:
    """The entry of the process: `FD OWNER_PID`."""
    fd, owner_pid = map(int, arguments)
    die_with(owner_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who tells us to quit
    return host(socket.socket(fileno=fd), MonotonicClock(), loaded=freeze_gc)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # nothing to tidy: torch's own teardown takes a tenth of a second
