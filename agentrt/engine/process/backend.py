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
    EngineUnavailable,
    ErrorRecord,
    InternalError,
    record_of,
)
from agentrt.base.ids import RequestId
from agentrt.engine.process import messages
from agentrt.engine.process.child import Child, ChildExit, ProcessChild, ThreadChild
from agentrt.engine.process.death import Death
from agentrt.engine.process.engine_process import EngineProcess
from agentrt.engine.process.messages import Command
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
        self._engine: EngineProcess | None = None
        self._unsent: list[Command] = []
        self._prewarmed: list[ConstraintSpec] = []
        self._sent: set[RequestId] = set()
        self._capabilities: Capabilities | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._deaths = 0  # since the last token
        self._failed_loads = 0
        self._refusal: ErrorRecord | None = None
        self._closing = False

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            raise InternalError("capabilities are known once start() has returned")
        return self._capabilities

    @property
    def pid(self) -> int | None:
        """Id of the engine's process; None if there is none, and in a thread."""
        return None if self._engine is None else self._engine.pid

    def launch(self) -> None:
        """Start the engine's process without waiting; call it early, and import meanwhile."""
        if self._engine is None:
            self._engine = EngineProcess(self._start_child(), self._receive_step)

    def abandon(self) -> None:
        """End the launched process if no event loop will ever start the backend."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.abandon()

    async def start(self) -> None:
        if self._supervisor is not None or self._closing:
            return
        while (death := await self._load()) is not None:
            self._deaths += 1
            if death.is_own_fault or self._deaths >= _FIRST_LOADS:
                raise death.while_loading()
            await asyncio.sleep(self._pause_s(self._deaths))
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
        if new and self._engine is not None:
            self._engine.prewarm(new)

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    async def aclose(self) -> None:
        self._closing = True
        with anyio.CancelScope(shield=True):
            if self._engine is not None and not self._sent:  # else it ignored a cancellation
                await self._engine.shut_down()
            if self._supervisor is not None:
                self._supervisor.cancel()
                await asyncio.wait([self._supervisor])
                self._supervisor = None
            if self._engine is not None:
                await self._engine.end()
                self._engine = None
        self._cancel_remaining()
        self._queue.close()

    def _send(self, command: Command) -> None:
        """Send a command, or queue it until the engine is up."""
        if self._engine is None or not self._engine.is_up:
            self._unsent.append(command)
            return
        if isinstance(command, GenerateRequest):
            self._sent.add(command.request_id)
        self._engine.send(command)

    def _receive_step(self, done: StepDone) -> None:
        self._sent.difference_update(end.request_id for end in done.ends)
        if done.deltas:
            self._deaths = 0
        self._queue.put(done)

    async def _load(self) -> Death | None:
        """Launch an engine, wait until it has loaded, and send the queued commands.

        Returns:
            The end of an engine that did not load; None if it did.
        """
        try:
            self.launch()
        except OSError as error:  # no process, memory or descriptor is left
            return Death(ChildExit(f"it could not be started: {error}", ""), None, "alive", 0)
        engine = self._engine
        assert engine is not None
        try:
            has_loaded = await engine.load(self._config, self._prewarmed)
        except BaseException:
            await engine.end()
            self._engine = None
            raise
        if not has_loaded:
            return await self._reap(engine)
        self._capabilities = engine.capabilities
        unsent, self._unsent = self._unsent, []
        for command in unsent:
            self._send(command)
        return None

    async def _reap(self, engine: EngineProcess) -> Death:
        death = await engine.death()
        self._engine = None
        return death

    async def _supervise(self) -> None:
        """Report each end of the engine and start another, while the backend is open."""
        while self._engine is not None:
            await self._engine.wait_closed()
            if self._closing:
                return
            death = await self._reap(self._engine)
            self._deaths += 1
            lost, self._sent = tuple(sorted(self._sent)), set()
            error = record_of(death.while_serving())
            self._queue.put(BackendDown(error, lost, True, death.is_own_fault))
            await self._restart()

    async def _restart(self) -> None:
        """Start another engine, however often that fails."""
        while self._engine is None:
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
