"""State of the runs of one command, from their events: rows, independent of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.money import money_text
from agentrt.protocol.events import (
    AttemptFailed,
    Event,
    FirstToken,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolStarted,
)
from agentrt.protocol.step_output import StepDone

State = Literal["waiting", "prefill", "decode", "running", "ok", "failed", "cancelled"]


@dataclass(slots=True)
class BoardRow:
    """One node, as shown to the user.

    Attributes:
        run_id: The run.
        name: Path below the run's program.
        kind: generate, tool, program or ask.
        started_at_s: Instant of its declaration.
        state: Current state.
        tokens: Tokens produced so far.
        cost: Cost of what it has produced, once it has ended; "" without prices.
        ended_at_s: Instant of its end, or None.
    """

    run_id: RunId
    name: str
    kind: str
    started_at_s: float
    state: State = "waiting"
    tokens: int = 0
    cost: str = ""
    ended_at_s: float | None = None

    def line(self, now_s: float) -> str:
        """The row as text."""
        spent_ms = ((self.ended_at_s or now_s) - self.started_at_s) * 1e3
        tokens = f"  {self.tokens} tokens" if self.tokens else ""
        cost = f"  {self.cost}" if self.cost else ""
        return f"{self.name:<28} {self.kind:<8} {self.state:<9} {spent_ms:7.0f} ms{tokens}{cost}"


@dataclass(slots=True)
class Board:
    """Rows by node, in order of declaration.

    Attributes:
        labels: Beginning of the names of a run's rows, such as the number of its record.
        rows: All rows.
        runs_done: Number of finished runs.
        finished: Rows that ended since the last `take_finished`.
    """

    labels: Mapping[RunId, str] = field(default_factory=dict)
    rows: dict[tuple[RunId, NodeId], BoardRow] = field(default_factory=dict)
    runs_done: int = 0
    finished: list[BoardRow] = field(default_factory=list)
    _requests: dict[RequestId, BoardRow] = field(default_factory=dict)
    _failed_pico: dict[tuple[RunId, NodeId], int] = field(default_factory=dict)

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""
        for event in events:
            self._on_event(event)

    def take_finished(self) -> list[BoardRow]:
        """Rows that ended since the last call."""
        ended, self.finished = self.finished, []
        return ended

    def _on_event(self, event: Event) -> None:
        match event:
            case RunStarted() | RunFinished():
                self.runs_done += isinstance(event, RunFinished)
            case NodeDeclared(kind="program", parent=None):
                pass  # the run itself: its line comes at the end
            case NodeDeclared():
                name = event.node_id.partition("/")[2] or event.node_id
                name = self.labels.get(event.run_id, "") + name
                row = BoardRow(event.run_id, name, event.kind, event.at_s)
                self.rows[event.run_id, event.node_id] = row
            case StepDone():
                for delta in event.deltas:
                    if delta.request_id in self._requests:
                        self._requests[delta.request_id].tokens += len(delta.token_ids)
            case AttemptFailed():
                key = (event.run_id, event.node_id)
                self._failed_pico[key] = self._failed_pico.get(key, 0) + event.ledger.cost_pico
            case RequestSent() | FirstToken() | ToolStarted() | NodeFinished():
                self._change(event)
            case _:
                pass

    def _cost(self, event: NodeFinished) -> str:
        """Cost of a node that has ended, failed answers included; "" without prices."""
        failed_pico = self._failed_pico.pop((event.run_id, event.node_id), 0)
        ledger = event.ledger
        if ledger is None or not ledger.currency:
            return ""
        return money_text(ledger.cost_pico + failed_pico, ledger.currency)

    def _change(self, event: RequestSent | FirstToken | ToolStarted | NodeFinished) -> None:
        row = self.rows.get((event.run_id, event.node_id))
        if row is None:
            return
        match event:
            case RequestSent():
                row.state = "prefill"
                self._requests[event.request_id] = row
            case FirstToken():
                row.state = "decode"
            case ToolStarted():
                row.state = "running"
            case NodeFinished():
                row.state = event.outcome
                row.cost = self._cost(event)
                row.ended_at_s = event.at_s
                if event.ledger is not None:
                    row.tokens = event.ledger.output_tokens
                self.finished.append(row)
