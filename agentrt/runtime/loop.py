"""The heart: facts come in, state changes, decisions are carried out, observers see."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from agentrt.backend import BackendDown, StepDone
from agentrt.clock import Clock
from agentrt.errors import AgentrtError, InternalError
from agentrt.events import Event
from agentrt.runtime.effects import Effects
from agentrt.runtime.intake import Intake
from agentrt.runtime.observers import Observers
from agentrt.scheduler import (
    CancelWanted,
    DemandEnded,
    Fact,
    Held,
    Performed,
    Released,
    State,
    apply,
    decide,
)

_INTERNAL = (Held, Released, DemandEnded, CancelWanted, Performed)


class Loop:
    """One loop for all runs of a runtime.

    Attributes:
        state: What the scheduler knows; changed here only.
        batches: How many batches of facts it has handled.
        ended: Why it handles nothing more, once it does not.
    """

    def __init__(
        self,
        state: State,
        effects: Effects,
        intake: Intake,
        observers: Observers,
        clock: Clock,
        on_end: Callable[[AgentrtError], None],
    ) -> None:
        self.state = state
        self.batches = 0
        self.ended: AgentrtError | None = None
        self._on_end = on_end
        self._effects = effects
        self._intake = intake
        self._observers = observers
        self._clock = clock
        self._inbox: list[Fact] = []
        self._wake: anyio.Event | None = None
        self._waiting: list[tuple[Fact, anyio.Event]] = []

    def post(self, fact: Fact) -> None:
        """Leave a fact for the next batch."""
        self._inbox.append(fact)
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    async def seen(self, fact: Fact) -> None:
        """Leave a fact and wait until it was handled and every observer has seen it."""
        if self.ended is not None:
            return
        done = anyio.Event()
        self._waiting.append((fact, done))
        self.post(fact)
        with anyio.CancelScope(shield=True):
            await done.wait()

    async def serve(self) -> None:
        """Handle facts until cancelled. An error in here is our own bug: it ends every run."""
        while True:
            if not self._inbox:
                await self._more()
            try:
                self._batch()
            except Exception as error:
                bug = InternalError(f"the loop broke: {type(error).__name__}: {error}")
                bug.__cause__ = error
                self.end(bug)
                return

    async def _more(self) -> None:
        """Wait for a fact or the next deadline."""
        wake = self._wake = anyio.Event()
        deadline_s = self.state.next_deadline_s()
        if deadline_s is None:
            await wake.wait()
        else:
            with anyio.move_on_after(max(0.0, deadline_s - self._clock.now_s())):
                await wake.wait()
        self._wake = None

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
                apply(self.state, Performed(decision))
        if self._observers and seen:
            self._observers.see(seen)
        if self._waiting:
            self._answer(facts)

    def end(self, error: AgentrtError) -> None:
        """Handle nothing more: every node under way fails with `error`, and nothing waits."""
        self.ended = error
        self._on_end(error)
        for _, done in self._waiting:
            done.set()

    def _take(self, fact: Fact, seen: list[Event]) -> None:
        apply(self.state, fact)
        if not isinstance(fact, _INTERNAL):
            seen.append(fact)
        if isinstance(fact, StepDone):
            for event in self._intake.take(fact):
                self._take(event, seen)
        elif isinstance(fact, BackendDown):
            for event in self._intake.lose(fact):
                self._take(event, seen)

    def _answer(self, facts: list[Fact]) -> None:
        handled = {id(fact) for fact in facts}
        for fact, done in self._waiting:
            if id(fact) in handled:
                done.set()
        self._waiting = [(fact, done) for fact, done in self._waiting if not done.is_set()]
