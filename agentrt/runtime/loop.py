"""The heart: facts come in, state changes, decisions are carried out, observers see."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

import anyio

from agentrt.base.clock import Clock
from agentrt.base.errors import AgentrtError, InternalError, revive
from agentrt.program.scope import sooner
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import BackendDown, StepDone
from agentrt.runtime.effects import Effects
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.observers import Observers
from agentrt.runtime.requests.results import ResultDelivery
from agentrt.scheduler import (
    CancelRequested,
    CloseRequested,
    DemandEnded,
    Held,
    InternalEvent,
    Performed,
    Released,
    State,
    apply,
    decide,
)

_INTERNAL = (Held, Released, DemandEnded, CancelRequested, CloseRequested, Performed)


class Loop:
    """One loop for all runs of a runtime; made on the event loop that it then lives on.

    It is a callback and no task: a serial program wakes it twice a node, and a task with an event
    to wait for costs five times a callback.

    Attributes:
        state: What the scheduler knows; changed here only.
        batches: How many batches of facts it has handled.
        ended: Why it handles nothing more, once it does not.
        down: Why an engine is gone for good, once one is.
        retention: What engines are told of prefixes.
    """

    def __init__(
        self,
        state: State,
        effects: Effects,
        intake: ResultDelivery,
        observers: Observers,
        clock: Clock,
        on_end: Callable[[AgentrtError], None],
        retention: KvRetention,
    ) -> None:
        self.state = state
        self.batches = 0
        self.ended: AgentrtError | None = None
        self.down: AgentrtError | None = None
        self._on_end = on_end
        self.retention = retention
        self._effects = effects
        self._intake = intake
        self._observers = observers
        self._clock = clock
        self._inbox: list[InternalEvent] = []
        self._asyncio = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._due = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s: float | None = None
        self._waiting: list[tuple[InternalEvent, anyio.Event]] = []

    def post(self, fact: InternalEvent) -> None:
        """Leave a fact for the next batch, which comes with the event loop's next turn."""
        if self._closed:
            return
        self._inbox.append(fact)
        if not self._due:
            self._due = True
            self._asyncio.call_soon(self._posted, context=self._context)

    def deliver(self, fact: InternalEvent) -> None:
        """Handle a fact now, with all that has arrived: an engine's, while no code of ours runs."""
        if not self._closed:
            self._inbox.append(fact)
            self._turn()

    async def seen(self, fact: InternalEvent) -> None:
        """Leave a fact and wait until it was handled and every observer has seen it."""
        if self.ended is not None:
            return
        done = anyio.Event()
        self._waiting.append((fact, done))
        self.post(fact)
        with anyio.CancelScope(shield=True):
            await done.wait()

    def close(self) -> None:
        """No more turns."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _posted(self) -> None:
        if self._due:  # else a delivery has taken all that was posted along
            self._turn()

    def _turn(self) -> None:
        """Handle what has arrived. An error in here is our own bug: it ends every run."""
        if self._closed or self.ended is not None:
            return
        self._due = False
        try:
            self._batch()
        except Exception as error:
            bug = InternalError(f"the loop broke: {type(error).__name__}: {error}")
            bug.__cause__ = error
            self.end(bug)
            return
        next_at_s = self.state.next_deadline_s()
        if self.retention.is_on:
            next_at_s = sooner(next_at_s, self.retention.next_at_s)
        if next_at_s != self._timer_at_s:
            self._set_timer(next_at_s)

    def _set_timer(self, at_s: float | None) -> None:
        """Come back when the next deadline passes, or a prefix has to be fetched."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at_s = at_s
        if self._timer_at_s is not None:
            wait_s = max(0.0, self._timer_at_s - self._clock.now_s())
            self._timer = self._asyncio.call_later(wait_s, self._passed, context=self._context)

    def _passed(self) -> None:
        self._timer_at_s = None
        self._turn()

    def _batch(self) -> None:
        self.batches += 1
        facts, self._inbox = self._inbox, []
        seen: list[Event] = []
        for fact in facts:
            self._take(fact, seen)
        while decisions := decide(self.state, self._clock.now_s()):
            for decision in decisions:
                for event in self._effects.perform(decision):
                    self._take(event, seen)
                if self._intake.left:
                    for event in self._intake.end_left():
                        self._take(event, seen)
                apply(self.state, Performed(decision))
        if self.retention.is_on:
            self.retention.settle(self.state, self._clock.now_s())
        if self._observers and seen:
            self._observers.on_events(seen)
        if self._waiting:
            self._answer(facts)

    def end(self, error: AgentrtError) -> None:
        """Handle nothing more: every node under way fails with `error`, and nothing waits."""
        self.ended = error
        self._on_end(error)
        for _, done in self._waiting:
            done.set()

    def _take(self, fact: InternalEvent, seen: list[Event]) -> None:
        apply(self.state, fact)
        if not isinstance(fact, _INTERNAL):
            seen.append(fact)
        if isinstance(fact, StepDone):
            for event in self._intake.take(fact):
                self._take(event, seen)
        elif isinstance(fact, BackendDown):
            if not fact.restarting:
                self.down = revive(fact.error)
            for event in self._intake.lose(fact):
                self._take(event, seen)

    def _answer(self, facts: list[InternalEvent]) -> None:
        handled = {id(fact) for fact in facts}
        for fact, done in self._waiting:
            if id(fact) in handled:
                done.set()
        self._waiting = [(fact, done) for fact, done in self._waiting if not done.is_set()]
