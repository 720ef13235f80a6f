"""The embedded engine as a `Backend`: in its own process, restarted when it dies.

A busy Python thread of the caller's process costs the engine nothing there: it has its own
interpreter lock, its own OpenMP settings, and never waits for its reader. This module imports no
torch; the process that it starts does.
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
from agentrt.engine.process.child import Child, Death, ProcessChild, ThreadChild
from agentrt.engine.process.messages import (
    Advise,
    Cancel,
    Command,
    Grow,
    LoadEngine,
    Note,
    Prewarm,
    Quit,
)
from agentrt.engine.process.pipe import Pipe
from agentrt.engine.process.watchdog import falls_silent
from agentrt.protocol.backend import Capabilities, GenerateRequest, HoleFill, KvHint, SchedulingInfo
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import BackendDown, BackendEvent, End, Ledger, StepDone

Place = Literal["process", "thread"]

DEATHS_WITHOUT_PROGRESS = 3
_QUIT_S = 5.0
_REAP_S = 2.0


class EmbeddedBackend:
    """The embedded engine behind the `Backend` contract.

    Args:
        config: How it is set up.
        clock: Used by the engine when it runs in a thread, and for ends that it cannot tell.
        place: `thread` runs the same loop in this process, for tests.
    """

    def __init__(self, config: EngineConfig, clock: Clock, *, place: Place = "process") -> None:
        self._config = config
        self._clock = clock
        self._place = place
        self._queue = EventQueue()
        self._child: Child | None = None
        self._pipe: Pipe | None = None
        self._unsent: list[Command] = []
        self._ahead: list[ConstraintSpec] = []
        self._sent: set[RequestId] = set()
        self._capabilities: Capabilities | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._deaths = 0
        self._gone: ErrorRecord | None = None
        self._closing = False

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            raise InternalError("capabilities are known once start() has returned")
        return self._capabilities

    @property
    def pid(self) -> int | None:
        """Of the engine's process; None while there is none, and in a thread."""
        return self._child.pid if isinstance(self._child, ProcessChild) else None

    def launch(self) -> None:
        """Start the engine's process without waiting: call it early, and import meanwhile."""
        if self._child is None:
            if self._place == "process":
                self._child = ProcessChild(self._config)
            else:
                self._child = ThreadChild(self._clock)

    def abandon(self) -> None:
        """End what `launch` began, where no event loop will ever start it."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(_REAP_S)
            self._child.ours.close()
            self._child = None

    async def start(self) -> None:
        if self._keeper is not None or self._closing:
            return
        try:
            await self._load()
        except BaseException:
            await self._end_child(0)
            raise
        self._keeper = asyncio.create_task(self._keep())

    def submit(self, request: GenerateRequest) -> None:
        if self._gone is not None:
            end = End(request.request_id, "failed", error=self._gone)
            self._queue.put(StepDone(None, (), (end,)))
        else:
            self._send(request)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        self._send(Grow(request_id, fill))

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        self._send(Note(updates))

    def cancel(self, request_id: RequestId, reason: str) -> None:
        self._send(Cancel(request_id, reason))

    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None = None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None:
        self._send(Advise(token_ids, hint, until_s, from_tokens, cache_salt))

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Also while it is loading: what came until then is compiled before it serves."""
        new = tuple(one for one in constraints if one not in self._ahead)
        self._ahead += new
        if new and self._pipe is not None and not self._pipe.closed.is_set():
            self._pipe.send(Prewarm(new))

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    async def aclose(self) -> None:
        self._closing = True
        with anyio.CancelScope(shield=True):
            quits = self._pipe if self._is_up else None
            if quits is not None:
                quits.send(Quit())
                with anyio.move_on_after(_QUIT_S):
                    await quits.closed.wait()
            if self._watcher is not None:
                self._watcher.cancel()
            if self._keeper is not None:
                self._keeper.cancel()
                await asyncio.wait([self._keeper])
                self._keeper = None
            await self._end_child(_REAP_S if quits is not None else 0)
        self._cancel_the_rest()
        self._queue.close()

    def _send(self, command: Command) -> None:
        """To the engine, or aside until there is one again."""
        if self._pipe is None or not self._is_up:
            self._unsent.append(command)
            return
        if isinstance(command, GenerateRequest):
            self._sent.add(command.request_id)
            if self._config.stall_s and (self._watcher is None or self._watcher.done()):
                self._watcher = asyncio.create_task(self._watch(self._pipe))
        self._pipe.send(command)

    @property
    def _is_up(self) -> bool:
        pipe = self._pipe
        return pipe is not None and pipe.capabilities is not None and not pipe.closed.is_set()

    def _take(self, done: StepDone) -> None:
        self._sent.difference_update(end.request_id for end in done.ends)
        if done.deltas:
            self._deaths = 0
        self._queue.put(done)

    async def _load(self) -> None:
        """Launch, connect, wait until the engine has loaded, and send what has gathered meanwhile.

        Raises:
            AgentrtError: It cannot load; typed as it said itself.
        """
        self.launch()
        assert self._child is not None
        self._pipe = pipe = await Pipe.open(self._child.ours, self._take)
        pipe.send(LoadEngine(self._config))
        if self._ahead:
            pipe.send(Prewarm(tuple(self._ahead)))
        await pipe.settled.wait()
        if pipe.capabilities is None:
            raise _cannot_start(await self._end_child(_REAP_S), pipe.last_words)
        self._capabilities = pipe.capabilities
        unsent, self._unsent = self._unsent, []
        for command in unsent:
            self._send(command)

    async def _keep(self) -> None:
        """While the backend is open: when the engine dies, tell so and start another."""
        while self._pipe is not None:
            await self._pipe.closed.wait()
            if self._closing:
                return
            last_words = self._pipe.last_words
            error = _died(await self._end_child(_REAP_S), last_words)
            self._deaths += 1
            if self._deaths >= DEATHS_WITHOUT_PROGRESS:
                self._give_up(error)
                return
            lost, self._sent = tuple(sorted(self._sent)), set()
            self._queue.put(BackendDown(record_of(error), lost, restarting=True))
            await self._restart()

    async def _watch(self, pipe: Pipe) -> None:
        """While requests are under way: an engine that no longer answers is ended."""
        stall_s = self._config.stall_s
        silent = await falls_silent(
            pipe, lambda: bool(self._sent) and not pipe.closed.is_set(), stall_s
        )
        if silent and self._child is not None:
            pipe.last_words = record_of(EngineDied(f"no answer for {stall_s:g} s"))
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
                if self._deaths >= DEATHS_WITHOUT_PROGRESS or not error.retryable:
                    self._give_up(error)
                    return

    def _give_up(self, error: AgentrtError) -> None:
        self._gone = record_of(
            EngineUnavailable(
                f"the engine died {self._deaths} times without producing a token: {error.message}",
                hint=error.hint,
            )
        )
        lost = tuple(sorted(self._sent | set(self._waiting())))
        self._sent, self._unsent = set(), []
        self._queue.put(BackendDown(self._gone, lost, restarting=False))

    def _cancel_the_rest(self) -> None:
        """End what the engine did not end itself."""
        now_s = self._clock.now_s()
        ledger = Ledger(finished_at_s=now_s, source="inferred")
        rest = sorted(self._sent | set(self._waiting()))
        self._sent, self._unsent = set(), []
        if rest:
            ends = tuple(End(request_id, "cancelled", ledger) for request_id in rest)
            self._queue.put(StepDone(None, (), ends))

    def _waiting(self) -> list[RequestId]:
        """Requests that were submitted while there was no engine."""
        return [one.request_id for one in self._unsent if isinstance(one, GenerateRequest)]

    async def _end_child(self, patience_s: float) -> Death:
        """Wait for the child to end, with 0 kill it, and let go of what joined us."""
        child, pipe = self._child, self._pipe
        self._child = self._pipe = None
        if child is None:
            return Death("it was not there", "")
        if patience_s == 0:
            child.kill()
        scope = anyio.CancelScope(shield=True)
        with scope:
            death = await anyio.to_thread.run_sync(child.wait, patience_s or _REAP_S)
        if pipe is None:
            child.ours.close()
        else:
            pipe.abort()
        return death


def _cannot_start(death: Death, last_words: ErrorRecord | None) -> AgentrtError:
    if last_words is None:
        message = f"the engine's process ended while it was loading ({death.how})"
        return EngineUnavailable(message, hint=_stderr_hint(death))
    error = revive(last_words)
    if isinstance(error, InternalError):
        return EngineUnavailable(f"the engine cannot start: {error.message}", hint=error.hint)
    return error


def _died(death: Death, last_words: ErrorRecord | None) -> EngineDied:
    said = f": {last_words.type}: {last_words.message}" if last_words else ""
    return EngineDied(f"the engine died ({death.how}){said}", hint=_stderr_hint(death))


def _stderr_hint(death: Death) -> str:
    """What the child wrote last, when that can help; "" leaves the error's own hint."""
    lines = [line.strip() for line in death.stderr.splitlines() if line.strip()]
    return f"Its last words: {' | '.join(lines[-3:])}" if lines else ""
