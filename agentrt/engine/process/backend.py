"""The embedded engine as a `Backend`: in its own process, restarted when it dies.

A busy Python thread in the caller's process costs the engine nothing: it has its own interpreter
lock and OpenMP settings, and never waits for its reader. This module imports no torch; the process
that it starts does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
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
)
from agentrt.base.ids import RequestId
from agentrt.engine.process import messages
from agentrt.engine.process.child import Child, ChildExit, ProcessChild, ThreadChild
from agentrt.engine.process.death import Death
from agentrt.engine.process.life_signs import LifeSigns
from agentrt.engine.process.messages import Command
from agentrt.engine.process.pipe import Pipe
from agentrt.engine.process.vitals import (
    CHECK_S,
    Verdict,
    Vitals,
    count_oom_kills,
    processor_seconds,
)
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

MAX_LOADS = 8
"""Loads that fail by an error of their own, one after the other, before requests that wait fail,
too; the loads go on."""

_FIRST_LOADS = 3
"""Loads that may be ended from outside before the backend counts as unable to start."""

_SHUTDOWN_S = 0.3
"""Seconds for an engine to end its requests and itself; all runs are over by then."""

_REAP_S = 2.0
_LONGEST_BACKOFF_S = 30.0


def backoff_s(deaths: int) -> float:
    """Seconds to wait before an engine is started again, after deaths without a token between."""
    return min(_LONGEST_BACKOFF_S, 0.25 * 2.0 ** (deaths - 2)) if deaths > 1 else 0.0


class EmbeddedBackend:
    """The embedded engine behind the `Backend` contract.

    Args:
        config: Config of the engine.
        clock: Clock of an engine in a thread, and of ends that a dead engine cannot report.
        place: "thread" runs the same loop in this process, for tests.
        start_child: Starts the engine's end of a connection; None chooses by `place`.
        pause_s: Seconds to wait before a load, by the number of deaths since the last token.
    """

    def __init__(
        self,
        config: EngineConfig,
        clock: Clock,
        *,
        place: Placement = "process",
        start_child: Callable[[], Child] | None = None,
        pause_s: Callable[[int], float] = backoff_s,
    ) -> None:
        self._config = config
        self._clock = clock
        if start_child is not None:
            self._start_child = start_child
        elif place == "process":
            self._start_child = partial(ProcessChild, config)
        else:
            self._start_child = partial(ThreadChild, clock)
        self._pause_s = pause_s
        self._queue = EventQueue()
        self._child: Child | None = None
        self._pipe: Pipe | None = None
        self._unsent: list[Command] = []
        self._prewarmed: list[ConstraintSpec] = []
        self._sent: set[RequestId] = set()
        self._capabilities: Capabilities | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._watchdog: asyncio.Task[None] | None = None
        self._vitals: asyncio.Task[None] | None = None
        self._deaths = 0  # since the last token
        self._failed_loads = 0
        self._refusal: ErrorRecord | None = None
        self._verdict: Verdict = "alive"
        self._closing = False

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            raise InternalError("capabilities are known once start() has returned")
        return self._capabilities

    @property
    def pid(self) -> int | None:
        """Id of the engine's process; None if there is none, and in a thread."""
        return None if self._child is None else self._child.pid

    def launch(self) -> None:
        """Start the engine's process without waiting; call it early, and import meanwhile."""
        if self._child is None:
            self._child = self._start_child()

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
            while (death := await self._load()) is not None:
                self._deaths += 1
                if death.is_own_fault or self._deaths >= _FIRST_LOADS:
                    raise death.while_loading()
                await asyncio.sleep(self._pause_s(self._deaths))
        except BaseException:
            await self._end_child(0)
            raise
        self._supervisor = asyncio.create_task(self._supervise())

    def submit(self, request: GenerateRequest) -> None:
        if self._refusal is not None:
            end = End(request.request_id, "failed", error=self._refusal)
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
            for task in (self._watchdog, self._vitals):
                if task is not None:
                    task.cancel()
            if self._supervisor is not None:
                self._supervisor.cancel()
                await asyncio.wait([self._supervisor])
                self._supervisor = None
            await self._end_child(_REAP_S if pipe is not None and pipe.closed.is_set() else 0)
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

    async def _load(self) -> Death | None:
        """Launch, connect, wait until the engine has loaded, and send the queued commands.

        Returns:
            The end of an engine that did not load; None if it did.
        """
        oom_kills = count_oom_kills()
        try:
            self.launch()
        except OSError as error:  # no process, memory or descriptor is left
            return Death(ChildExit(f"it could not be started: {error}", ""), None, "alive", 0)
        assert self._child is not None
        self._pipe = pipe = await Pipe.open(self._child.owner_socket, self._receive_step)
        self._verdict = "alive"
        if self._child.signs is not None:
            self._vitals = asyncio.create_task(
                self._watch_vitals(self._child, self._child.signs, pipe)
            )
        pipe.send(messages.LoadEngine(self._config))
        if self._prewarmed:
            pipe.send(messages.Prewarm(tuple(self._prewarmed)))
        await pipe.settled.wait()
        if pipe.capabilities is None:
            return await self._reap(pipe, oom_kills)
        self._capabilities = pipe.capabilities
        unsent, self._unsent = self._unsent, []
        for command in unsent:
            self._send(command)
        return None

    async def _supervise(self) -> None:
        """Report each end of the engine and start another, while the backend is open."""
        while self._pipe is not None:
            oom_kills = count_oom_kills()
            await self._pipe.closed.wait()
            if self._closing:
                return
            death = await self._reap(self._pipe, oom_kills)
            self._deaths += 1
            lost, self._sent = tuple(sorted(self._sent)), set()
            error = record_of(death.while_serving())
            self._queue.put(BackendDown(error, lost, True, death.is_own_fault))
            await self._restart()

    async def _reap(self, pipe: Pipe, oom_kills: int) -> Death:
        """Find out how an engine ended.

        Args:
            pipe: Connection to the engine, which is closed.
            oom_kills: Result of `count_oom_kills` while the engine lived.
        """
        verdict = self._verdict
        child_exit = await self._end_child(_REAP_S)
        return Death(child_exit, pipe.last_error, verdict, count_oom_kills() - oom_kills)

    async def _watch_vitals(self, child: Child, signs: LifeSigns, pipe: Pipe) -> None:
        """Kill an engine that is stopped, or whose step hangs."""
        vitals, looked_s = Vitals(), anyio.current_time()
        while not pipe.closed.is_set():
            await asyncio.sleep(CHECK_S)
            reading, now_s = signs.read(), anyio.current_time()
            verdict = vitals.look(reading, processor_seconds(child.pid or 0), now_s - looked_s)
            looked_s = now_s
            if verdict != "alive" and not pipe.closed.is_set():
                self._verdict = verdict
                pipe.last_error = record_of(EngineDied(vitals.describe(verdict)))
                child.kill()
                pipe.abort()

    async def _watch(self, pipe: Pipe) -> None:
        """Kill an engine that no longer answers while requests are unfinished."""
        stall_s = self._config.stall_s
        stalled = await stalls(pipe, lambda: bool(self._sent) and not pipe.closed.is_set(), stall_s)
        if stalled and self._child is not None:
            pipe.last_error = record_of(EngineDied(f"no answer for {stall_s:g} s"))
            self._child.kill()
            pipe.abort()

    async def _restart(self) -> None:
        """Start another engine, however often that fails."""
        while self._pipe is None:
            await asyncio.sleep(self._pause_s(self._deaths))
            death = await self._load()
            if death is None:
                self._failed_loads, self._refusal = 0, None
                return
            error = death.while_loading()
            self._deaths += 1
            self._failed_loads += death.is_own_fault
            if self._failed_loads >= MAX_LOADS or not error.retryable:
                self._refuse(error)

    def _refuse(self, error: AgentrtError) -> None:
        """Fail requests until a load succeeds."""
        was_refusing = self._refusal is not None
        self._refusal = record_of(
            EngineUnavailable(f"the engine cannot start again: {error.message}", hint=error.hint)
        )
        lost = tuple(sorted(self._sent | set(self._unsent_requests())))
        self._sent, self._unsent = set(), []
        if lost or not was_refusing:
            self._queue.put(BackendDown(self._refusal, lost, restarting=False))

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
