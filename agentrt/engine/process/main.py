"""The loop around an engine core, in a process of its own (or in a thread, for tests).

Run as `python -m agentrt.engine.process.main FD OWNER_PID SIGNS_FD`; the parent sets the
environment before torch loads here. Commands arrive as frames over the socket, one report goes back
per step.
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
from agentrt.base.eagle3 import check_is_model
from agentrt.base.errors import AgentrtError, ErrorRecord, ModelInvalid, record_of
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.gguf.gguf_file import open_gguf
from agentrt.base.ids import RequestId
from agentrt.engine.process import messages
from agentrt.engine.process.channel import Channel, OwnerGone
from agentrt.engine.process.forecasts import UNKNOWN_S, StepForecast
from agentrt.engine.process.life_signs import LifeSigns
from agentrt.engine.process.messages import Command
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.step_output import End, StepDone

_IDLE_S = 0.001
_PREWARM_S = 1.0
"""Longest time for which constraints compiled ahead may delay the start."""
_DRAIN_S = 2.0
_PR_SET_PDEATHSIG = 1


class Core(Protocol):
    """The interface that the loop drives: synchronous, one thread."""

    on_launch: Callable[[int], None] | None

    @property
    def capabilities(self) -> Capabilities: ...
    def submit(self, request: GenerateRequest) -> None: ...
    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None: ...
    def update(self, updates: tuple[SchedulingInfo, ...]) -> None: ...
    def cancel(self, request_id: RequestId, reason: str) -> None: ...
    def hint(self, hint: PrefixHint) -> None: ...
    def prewarm(self, constraints: tuple[ConstraintSpec, ...], wait_s: float = 0.0) -> None: ...
    def has_work(self) -> bool: ...
    def step(self) -> StepDone | None: ...
    def close(self) -> None: ...


class EngineLoop:
    """Runs one engine core behind one channel.

    Args:
        core: The core.
        channel: Connection to the owner.
        signs: Where each phase of work is noted; None for nowhere.
    """

    def __init__(self, core: Core, channel: Channel, signs: LifeSigns | None = None) -> None:
        self._core = core
        self._channel = channel
        self._signs = signs or LifeSigns()
        self._forecast = StepForecast()
        core.on_launch = self._announce
        self._unfinished: set[RequestId] = set()

    def compile_prewarmed(self) -> None:
        """Compile the constraints that were announced while the core was loading."""
        arrived = self._channel.receive(0)
        while arrived and isinstance(first := arrived[0], messages.Prewarm):
            self._core.prewarm(first.constraints, _PREWARM_S)
            del arrived[0]
        self._channel.put_back(arrived)

    def serve(self) -> None:
        """Serve until the owner sends `Shutdown`.

        Raises:
            OwnerGone: The owner's end closed without it.
        """
        wait_s: float | None = None
        try:
            while self._run_commands(self._receive(wait_s)):
                wait_s = self._run_step()
            self._shut_down()
        finally:
            self._core.close()

    def _receive(self, wait_s: float | None) -> list[Command]:
        """Receive commands; what follows is a phase of work."""
        if wait_s is None:
            self._signs.rest()
        commands = self._channel.receive(wait_s)
        self._signs.begin(UNKNOWN_S)
        return commands

    def _run_step(self) -> float | None:
        """Run one step; returns the seconds to wait for commands before the next, or None."""
        if not self._core.has_work():
            return None
        done = self._core.step()
        if done is None:
            return _IDLE_S
        if done.step is not None:
            seconds = done.step.ended_at_s - done.step.started_at_s
            self._forecast.note(done.step.prefill_tokens, seconds)
        self._send_step(done)
        return 0

    def _announce(self, prefill_tokens: int) -> None:
        self._signs.begin(self._forecast.forecast_s(prefill_tokens))

    def _run_commands(self, commands: Iterable[Command]) -> bool:
        """Run commands; False after `Shutdown`."""
        for command in commands:
            if isinstance(command, messages.Shutdown):
                return False
            self._run_command(command)
        return True

    def _run_command(self, command: Command) -> None:
        core = self._core
        match command:
            case GenerateRequest():
                self._submit(command)
            case messages.ExtendPrompt(request_id, fill):
                if request_id in self._unfinished:
                    core.fill_hole(request_id, fill)
            case messages.Reprioritize(updates):
                known = tuple(info for info in updates if info.request_id in self._unfinished)
                if known:
                    core.update(known)
            case messages.Cancel(request_id, reason):
                if request_id in self._unfinished:
                    core.cancel(request_id, reason)
            case PrefixHint():
                core.hint(command)
            case messages.Prewarm(constraints):
                core.prewarm(constraints)

    def _submit(self, request: GenerateRequest) -> None:
        self._unfinished.add(request.request_id)
        try:
            self._core.submit(request)
        except Exception as error:  # fails this request only
            end = End(request.request_id, "failed", error=record_of(error))
            self._send_step(StepDone(None, (), (end,)))

    def _send_step(self, done: StepDone) -> None:
        self._unfinished.difference_update(end.request_id for end in done.ends)
        self._channel.send(done)

    def _shut_down(self) -> None:
        """Cancel unfinished requests and send their ends."""
        for request_id in tuple(self._unfinished):
            self._core.cancel(request_id, "the engine is being closed")
        while self._unfinished and self._core.has_work():
            done = self._core.step()
            if done is not None:
                self._send_step(done)
        self._channel.drain(_DRAIN_S)


def serve_engine(
    end: socket.socket,
    clock: Clock,
    *,
    loaded: Callable[[], None] = lambda: None,
    signs: LifeSigns | None = None,
) -> int:
    """Load an engine and serve it over `end`; returns the exit code.

    Args:
        end: Engine's end of the connection to its owner.
        clock: Clock of the engine.
        loaded: Called once everything is loaded, before the owner learns of it.
        signs: Signs of life for the owner, or None.
    """
    channel = Channel(end)
    try:
        config = _receive_config(channel)
        core = load_core(config, clock)
        loop = EngineLoop(core, channel, signs)
        loop.compile_prewarmed()
        loaded()
        channel.send(core.capabilities)
        loop.serve()
    except OwnerGone:
        return 0
    except Exception as error:  # the owner learns of any error that ends the engine
        if not isinstance(error, AgentrtError):
            traceback.print_exc()
        _send_error(channel, record_of(error))
        return 1
    finally:
        channel.close()
    return 0


def load_core(config: EngineConfig, clock: Clock) -> Core:
    """Load the engine core; the only place from which its process imports torch.

    Raises:
        ModelInvalid: The model cannot be loaded.
    """
    for path in (config.model_path, config.draft_model):
        if path is None:
            continue
        if is_gguf(path):
            open_gguf(path)  # for its errors, before torch takes seconds
        elif not (path / "config.json").is_file():
            raise ModelInvalid(
                f"{path} is no model directory: it has no config.json",
                hint="Give a Hugging Face checkpoint directory with safetensors, or a GGUF file",
            )
    check_is_model(config.model_path)
    from agentrt.engine.core import EngineCore

    return EngineCore(config, clock)


def _receive_config(channel: Channel) -> EngineConfig:
    commands: list[Command] = []
    while not commands:
        commands = channel.receive(None)
    first, *rest = commands
    if not isinstance(first, messages.LoadEngine):
        raise TypeError(f"the first command is {type(first).__name__}, not Load")
    channel.put_back(rest)
    return first.config


def _send_error(channel: Channel, error: ErrorRecord) -> None:
    try:
        channel.send(error)
        channel.drain(_DRAIN_S)
    except OwnerGone:
        return


def die_with(owner_pid: int) -> None:
    """Kill this process when its owner's ends, even in the middle of a forward (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner_pid:
        raise SystemExit(0)  # it has ended already


def main(arguments: list[str]) -> int:
    """Entry point of the process: `FD OWNER_PID SIGNS_FD`."""
    fd, owner_pid, signs_fd = map(int, arguments)
    die_with(owner_pid)
    signs = LifeSigns(signs_fd)
    signs.start_beating()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, which shuts us down
    return serve_engine(socket.socket(fileno=fd), MonotonicClock(), loaded=freeze_gc, signs=signs)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # nothing to clean up: torch's teardown would take a tenth of a second
