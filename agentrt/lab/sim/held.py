"""What simulated programs hold of their chats, and what an engine is told of that."""

from __future__ import annotations

from agentrt.base.ids import RequestId, RunId
from agentrt.lab.sim.chats import ProgramChats
from agentrt.lab.sim.program_run import MODEL, ProgramRun
from agentrt.protocol.step_output import End, StepDone
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.model_role import ModelRole
from agentrt.scheduler import State


class HeldPrograms:
    """The chats of all programs under way, and what an engine is told of them.

    Args:
        engine: That is told.
        is_on: Whether it is.
    """

    def __init__(self, engine: ModelRole, *, is_on: bool) -> None:
        self._engine = engine
        self._retention = KvRetention({MODEL: engine}, is_on=is_on)
        self._chats: dict[RunId, ProgramChats] = {}
        self._lives: dict[RequestId, InFlight] = {}

    @property
    def is_on(self) -> bool:
        """Whether anything is told."""
        return self._retention.is_on

    @property
    def next_at_s(self) -> float | None:
        """When there is something to say next without anything happening."""
        return self._retention.next_at_s if self.is_on else None

    def sent(
        self,
        run: ProgramRun,
        name: str,
        request_id: RequestId,
        ids: tuple[int, ...],
        *,
        whole: bool,
    ) -> None:
        """A generation goes to the engine, with the part of its prompt that is known."""
        if self.is_on:
            live = self._lives[request_id] = self._of(run).sent(name, request_id)
            live.prompt_ids, live.prompt_complete = ids, whole
            self._retention.note_prompt(live)

    def filled(self, request_id: RequestId, more: tuple[int, ...], *, whole: bool) -> None:
        """More of its prompt is known."""
        live = self._lives.get(request_id)
        if live is not None:
            live.prompt_ids, live.prompt_complete = live.prompt_ids + more, whole
            self._retention.note_prompt(live)

    def ended(
        self, run: ProgramRun, name: str, end: End | None, ids: range, *, wanted: bool
    ) -> None:
        """A node is over; of a generation with its account and what it put out."""
        if not self.is_on:
            return
        chats = self._of(run)
        if not wanted:
            chats.given_up(name)
        else:
            chats.ended(name)
        live = self._lives.pop(end.request_id, None) if end is not None else None
        if live is not None and end is not None and wanted:
            live.output_ids = list(ids)
            self._retention.note_answer(live, end.ledger)

    def began(self, run: ProgramRun, name: str) -> None:
        """A tool or a person begins."""
        if self.is_on:
            self._retention.note_start(run.run_id, self._of(run).begun(name))

    def closed(self, run: ProgramRun) -> None:
        """A program is over: nobody holds its chats any more."""
        if self.is_on:
            self._chats.pop(run.run_id, None)
            self._retention.forget_run(run.run_id)

    def stepped(self, done: StepDone) -> None:
        """The engine told of its memory."""
        if self.is_on:
            self._retention.note_memory(MODEL, done)

    def settle(self, state: State, now_s: float) -> None:
        """Say what is to be said now."""
        if self.is_on:
            self._retention.send_hints(state, now_s)

    def _of(self, run: ProgramRun) -> ProgramChats:
        found = self._chats.get(run.run_id)
        if found is None:
            found = self._chats[run.run_id] = ProgramChats(run, self._engine)
        return found
