"""The embedded engine as a `Backend`: in its own process, restarted when it dies.

A busy Python thread in the caller's process costs the engine nothing: it has its own interpreter
lock and OpenMP settings, and never waits for its reader. This module imports no torch; the process
that it starts does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import anyio
import anyio.to_thread

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import (
    AgentrtError,
    EngineDied,
    EngineUnavailable,
    ErrorRecord,
    InternalError,
    record_of,
    revive,
)
from agentrt.base.ids import RequestId
from agentrt.engine.process import messages
from agentrt.engine.process.child import Child, ChildExit, ProcessChild, ThreadChild
from agentrt.engine.process.messages import Command
from agentrt.engine.process.pipe import Pipe
from agentrt.engine.process.watchdog import stalls
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import BackendDown, BackendEvent, End, Ledger, StepDone

Placement = Literal["process", "thread"]

MAX_DEATHS = 3
_SHUTDOWN_S = 5.0
_REAP_S = 2.0


class EmbeddedBackend:
    """The embedded engine behind the `Backend` contract.

    Args:
        config: Config of the engine.
        clock: Clock of an engine in a thread, and of ends that a dead engine cannot report.
        place: "thread" runs the same loop in this process, for tests.
    """

    def __init__(self, config: EngineConfig, clock: Clock, *, place: Placement = "process") -> None:
        self._config = config
        self._clock = clock
        self._place = place
        self._queue = EventQueue()
        self._child: Child | None = None
        self._pipe: Pipe | None = None
        self._unsent: list[Command] = []
        self._prewarmed: list[ConstraintSpec] = []
        self._sent: set[RequestId] = set()
        self._capabilities: Capabilities | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._watchdog: asyncio.Task[None] | None = None
        self._deaths = 0
        self._final_error: ErrorRecord | None = None
        self._closing = False

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            raise InternalError("capabilities are known once start() has returned")
        return self._capabilities

    @property
    def pid(self) -> int | None:
        """Id of the engine's process; None if there is none, and in a thread."""
        return self._child.pid if isinstance(self._child, ProcessChild) else None

    def launch(self) -> None:
        """Start the engine's process without waiting; call it early, and import meanwhile."""
        if self._child is None:
            if self._place == "process":
                self._child = ProcessChild(self._config)
            else:
                self._child = ThreadChild(self._clock)

    def abandon(self) -> None:
        """End the launched process if no event loop will ever start the backend."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(_REAP_S)
            self._child.owner_socket.close()
            self._child = None

    async def start(self) -> None:
        if self._supervisor is not None or self._closing:
            return
        try:
            await self._load()
        except BaseException:
            await self._end_child(0)
            raise
        self._supervisor = asyncio.create_task(self._supervise())

    def submit(self, request: GenerateRequest) -> None:
        if self._final_error is not None:
            end = End(request.request_id, "failed", error=self._final_error)
            self._queue.put(StepDone(None, (), (end,)))
        else:
            self._send(request)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        self._send(messages.ExtendPrompt(request_id, fill))

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        self._send(messages.Reprioritize(updates))

    def cancel(self, request_id: RequestId, reason: str) -> None:
        self._send(messages.Cancel(request_id, reason))

    def hint(self, hint: PrefixHint) -> None:
        self._send(hint)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Compile constraints ahead; those given before the engine has loaded delay its start."""
        new = tuple(one for one in constraints if one not in self._prewarmed)
        self._prewarmed += new
        if new and self._pipe is not None and not self._pipe.closed.is_set():
            self._pipe.send(messages.Prewarm(new))

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    async def aclose(self) -> None:
        self._closing = True
        with anyio.CancelScope(shield=True):
            pipe = self._pipe if self._is_up else None
            if pipe is not None:
                pipe.send(messages.Shutdown())
                with anyio.move_on_after(_SHUTDOWN_S):
                    await pipe.closed.wait()
            if self._watchdog is not None:
                self._watchdog.cancel()
            if self._supervisor is not None:
                self._supervisor.cancel()
                await asyncio.wait([self._supervisor])
                self._supervisor = None
            await self._end_child(_REAP_S if pipe is not None else 0)
        self._cancel_remaining()
        self._queue.close()

    def _send(self, command: Command) -> None:
        """Send a command, or queue it until the engine is up."""
        if self._pipe is None or not self._is_up:
            self._unsent.append(command)
            return
        if isinstance(command, GenerateRequest):
            self._sent.add(command.request_id)
            if self._config.stall_s and (self._watchdog is None or self._watchdog.done()):
                self._watchdog = asyncio.create_task(self._watch(self._pipe))
        self._pipe.send(command)

    @property
    def _is_up(self) -> bool:
        pipe = self._pipe
        return pipe is not None and pipe.capabilities is not None and not pipe.closed.is_set()

    def _receive_step(self, done: StepDone) -> None:
        self._sent.difference_update(end.request_id for end in done.ends)
        if done.deltas:
            self._deaths = 0
        self._queue.put(done)

    async def _load(self) -> None:
        """Launch, connect, wait until the engine has loaded, and send the queued commands.

        Raises:
            AgentrtError: The engine cannot load; its own error if it reported one.
        """
        self.launch()
        assert self._child is not None
        self._pipe = pipe = await Pipe.open(self._child.owner_socket, self._receive_step)
        pipe.send(messages.LoadEngine(self._config))
        if self._prewarmed:
            pipe.send(messages.Prewarm(tuple(self._prewarmed)))
        await pipe.settled.wait()
        if pipe.capabilities is None:
            raise _cannot_start(await self._end_child(_REAP_S), pipe.last_error)
        self._capabilities = pipe.capabilities
        unsent, self._unsent = self._unsent, []
        for command in unsent:
            self._send(command)

    async def _supervise(self) -> None:
        """Report each death of the engine and start another, while the backend is open."""
        while self._pipe is not None:
            await self._pipe.closed.wait()
            if self._closing:
                return
            last_error = self._pipe.last_error
            error = _died(await self._end_child(_REAP_S), last_error)
            self._deaths += 1
            if self._deaths >= MAX_DEATHS:
                self._give_up(error)
                return
            lost, self._sent = tuple(sorted(self._sent)), set()
            self._queue.put(BackendDown(record_of(error), lost, restarting=True))
            await self._restart()

    async def _watch(self, pipe: Pipe) -> None:
        """Kill an engine that no longer answers while requests are unfinished."""
        stall_s = self._config.stall_s
        stalled = await stalls(pipe, lambda: bool(self._sent) and not pipe.closed.is_set(), stall_s)
        if stalled and self._child is not None:
            pipe.last_error = record_of(EngineDied(f"no answer for {stall_s:g} s"))
            self._child.kill()
            pipe.abort()

    async def _restart(self) -> None:
        """Start another engine, or give up."""
        while self._pipe is None:
            try:
                await self._load()
            except AgentrtError as error:
                await self._end_child(0)
                self._deaths += 1
                if self._deaths >= MAX_DEATHS or not error.retryable:
                    self._give_up(error)
                    return

    def _give_up(self, error: AgentrtError) -> None:
        self._final_error = record_of(
            EngineUnavailable(
                f"the engine died {self._deaths} times without producing a token: {error.message}",
                hint=error.hint,
            )
        )
        lost = tuple(sorted(self._sent | set(self._unsent_requests())))
        self._sent, self._unsent = set(), []
        self._queue.put(BackendDown(self._final_error, lost, restarting=False))

    def _cancel_remaining(self) -> None:
        """End the requests that the engine did not end itself."""
        now_s = self._clock.now_s()
        ledger = Ledger(finished_at_s=now_s, source="inferred")
        remaining = sorted(self._sent | set(self._unsent_requests()))
        self._sent, self._unsent = set(), []
        if remaining:
            ends = tuple(End(request_id, "cancelled", ledger) for request_id in remaining)
            self._queue.put(StepDone(None, (), ends))

    def _unsent_requests(self) -> list[RequestId]:
        """Requests submitted while there was no engine."""
        return [one.request_id for one in self._unsent if isinstance(one, GenerateRequest)]

    async def _end_child(self, timeout_s: float) -> ChildExit:
        """Wait for the child to end (0 kills it), and close the connection."""
        child, pipe = self._child, self._pipe
        self._child = self._pipe = None
        if child is None:
            return ChildExit("it was not there", "")
        if timeout_s == 0:
            child.kill()
        scope = anyio.CancelScope(shield=True)
        with scope:
            child_exit = await anyio.to_thread.run_sync(child.wait, timeout_s or _REAP_S)
        if pipe is None:
            child.owner_socket.close()
        else:
            pipe.abort()
        return child_exit


def _cannot_start(child_exit: ChildExit, last_error: ErrorRecord | None) -> AgentrtError:
    if last_error is None:
        message = f"the engine's process ended while it was loading ({child_exit.how})"
        return EngineUnavailable(message, hint=_stderr_hint(child_exit))
    error = revive(last_error)
    if isinstance(error, InternalError):
        return EngineUnavailable(f"the engine cannot start: {error.message}", hint=error.hint)
    return error


def _died(child_exit: ChildExit, last_error: ErrorRecord | None) -> EngineDied:
    said = f": {last_error.type}: {last_error.message}" if last_error else ""
    return EngineDied(f"the engine died ({child_exit.how}){said}", hint=_stderr_hint(child_exit))


def _stderr_hint(child_exit: ChildExit) -> str:
    """Hint with the child's last lines of stderr; "" keeps the error's own hint."""
    lines = [line.strip() for line in child_exit.stderr.splitlines() if line.strip()]
    return f"Its last words: {' | '.join(lines[-3:])}" if lines else ""
