"""The loop: events arrive, the state changes, decisions are carried out, observers see."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from agentrt.base.clock import Clock
from agentrt.base.errors import AgentrtError, EngineUnavailable, InternalError, revive
from agentrt.program.scope import sooner
from agentrt.protocol.backend import Backend
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import BackendDown, StepDone
from agentrt.runtime.effects import Effects
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.observers import Observers
from agentrt.runtime.requests.output_processor import OutputProcessor
from agentrt.runtime.tasks.prefill_ahead import PrefillAhead
from agentrt.scheduler import InternalEvent, Start, State, apply, decide, internal_events

_INTERNAL = frozenset(
    {
        internal_events.Held,
        internal_events.Released,
        internal_events.DemandEnded,
        internal_events.CancelRequested,
        internal_events.CloseRequested,
        internal_events.OptionsKnown,
        internal_events.TextYielded,
        internal_events.KvRoomLearned,
    }
)
"""Events that observers do not see."""


class Loop:
    """One loop for all runs of a runtime; made on the event loop that it lives on.

    It is a callback and no task: a serial program wakes it twice a node, and a task that waits for
    an event costs five times a callback.

    Attributes:
        state: State of the scheduler; changed here only.
        batches: How many batches of events it has handled.
        ended: The error after which it handles nothing more, or None.
        down: The error of an engine that is gone for good, or None.
        retention: Hints to engines about prefixes.
        ahead: Prompts that engines compute ahead.
    """

    def __init__(
        self,
        state: State,
        effects: Effects,
        outputs: OutputProcessor,
        observers: Observers,
        clock: Clock,
        on_end: Callable[[AgentrtError], None],
        retention: KvRetention,
        ahead: PrefillAhead,
    ) -> None:
        self.state = state
        self.batches = 0
        self.ended: AgentrtError | None = None
        self.down: AgentrtError | None = None
        self._on_end = on_end
        self.retention = retention
        self.ahead = ahead
        self._effects = effects
        self._outputs = outputs
        self._observers = observers
        self._clock = clock
        self._inbox: list[InternalEvent] = []
        self._asyncio = asyncio.get_running_loop()
        self._context = _context()
        self._due = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s: float | None = None
        self._consequences: dict[type[Any], Callable[[Any, list[Event]], None]] = {
            StepDone: self._process_output,
            BackendDown: self._recover,
            internal_events.TextYielded: self._fill_readers,
        }

    def post(self, event: InternalEvent) -> None:
        """Leave an event for the next batch, at the latest in the event loop's next turn."""
        if self._closed:
            return
        self._inbox.append(event)
        if not self._due:
            self._come_back()

    def _come_back(self) -> None:
        """Take a turn behind all code that is about to run: what it posts is one batch."""
        self._due = True
        self._asyncio.call_soon(self._posted, context=self._context)

    def deliver(self, event: InternalEvent) -> None:
        """Handle an event now, with all that has arrived; on return all observers have seen it."""
        if not self._closed:
            self._inbox.append(event)
            self._context.run(self._turn)

    def close(self) -> None:
        """Take no more turns."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _posted(self) -> None:
        if self._inbox:  # else a delivery has handled what was posted, or nothing was
            self._turn()
        else:
            self._due = False

    def _turn(self) -> None:
        """Handle what has arrived. An error in here is a bug of the runtime and ends every run."""
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
        if self._outputs.stopping:
            next_at_s = sooner(next_at_s, next(iter(self._outputs.stopping.values())))
        if self.retention.is_on:
            next_at_s = sooner(next_at_s, self.retention.next_at_s)
        if next_at_s != self._timer_at_s:
            self._set_timer(next_at_s)

    def _set_timer(self, at_s: float | None) -> None:
        """Come back at the next deadline, or when a prefix has to be prefetched."""
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
        ended_count = self.state.ended_count
        arrived, self._inbox = self._inbox, []
        seen: list[Event] = []
        for event in arrived:
            apply(self.state, event)
            kind = type(event)
            if kind not in _INTERNAL:
                seen.append(event)  # type: ignore[arg-type]  # the set holds all others
            consequences = self._consequences.get(kind)
            if consequences is not None:
                consequences(event, seen)
        if self._outputs.stopping:
            self._take(self._outputs.end_overdue(self._clock.now_s()), seen)
        has_started = False
        while decisions := decide(self.state, self._clock.now_s()):
            for decision in decisions:
                has_started |= isinstance(decision, Start)
                self._take(self._effects.perform(decision), seen)
                if self._outputs.departed:
                    self._take(self._outputs.end_departed(), seen)
                apply(self.state, decision)
                if self._outputs.cached:
                    self._take(self._outputs.end_cached(), seen)
        if self.retention.is_on:
            self.retention.send_hints(self.state, self._clock.now_s())
        if self.ahead.is_on:
            self.ahead.send_due()
        if seen:
            self._observers.on_events(seen)
        if not self._due and (has_started or self.state.ended_count != ended_count):
            self._come_back()  # code that begins, or has just got a value, makes more nodes

    def end(self, error: AgentrtError) -> None:
        """Handle nothing more: every node that has not ended fails with `error`."""
        self.ended = error
        self._on_end(error)

    def _take(self, following: list[Event], seen: list[Event]) -> None:
        """Apply events that follow from others; nothing follows from them."""
        for event in following:
            apply(self.state, event)
        seen += following

    def _process_output(self, step: StepDone, seen: list[Event]) -> None:
        if step.step is not None:
            self.down = None
        self._take(self._outputs.process(step), seen)
        if self.ahead.is_on and step.ends:
            self.ahead.note_ends(step.ends)

    def _recover(self, down: BackendDown, seen: list[Event]) -> None:
        self.down = None if down.restarting else revive(down.error)
        self.ahead.forget_lost(down.lost, own_fault=down.own_fault)
        self._take(self._outputs.recover(down), seen)

    def _fill_readers(self, yielded: internal_events.TextYielded, seen: list[Event]) -> None:
        self._take(self._effects.fill_readers(yielded), seen)


def _context() -> contextvars.Context:
    """The context of all turns: callbacks, in which sniffio, if it is installed, sees no task.

    anyio asks it, and makes no cancel scope where it finds no library.
    """
    context = contextvars.copy_context()
    try:
        from sniffio import current_async_library_cvar
    except ModuleNotFoundError:
        return context
    context.run(current_async_library_cvar.set, "asyncio")
    return context


async def read_backend(role: str, backend: Backend, loop: Loop, clock: Clock) -> None:
    """Hand the events of a backend to the loop; its end is that of the loop."""
    try:
        async for event in backend.events():
            if isinstance(event, StepDone) and event.kv_room_tokens:
                loop.post(internal_events.KvRoomLearned(role, event.kv_room_tokens, clock.now_s()))
            loop.deliver(event)
    except AgentrtError as error:
        loop.end(error)
        return
    loop.end(EngineUnavailable("the engine is gone", hint="Open another runtime"))
