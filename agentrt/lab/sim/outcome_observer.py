"""Outcomes of programs, from the events of the runtime that served them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentrt.base.ids import NodeId, RunId
from agentrt.lab.sim.backend import SimulatedBackend
from agentrt.lab.sim.player import TracePlayer
from agentrt.protocol.events import Event, NodeDeclared, NodeFinished, RequestSent, Scheduled

Key = tuple[RunId, NodeId]


class OutcomeObserver:
    """Collects the outcomes of players from the events of their nodes.

    Args:
        players: Players of the runs in progress.
        backend: Takes the calls that join the request of another call.
    """

    def __init__(self, players: Mapping[RunId, TracePlayer], backend: SimulatedBackend) -> None:
        self._players = players
        self._backend = backend
        self._declared_at_s: dict[Key, float] = {}
        self._joined: set[Key] = set()

    def on_events(self, events: Sequence[Event]) -> None:
        """Collect a batch of events."""
        for event in events:
            match event:
                case NodeDeclared(kind="generate"):
                    self._declared_at_s[event.run_id, event.node_id] = event.at_s
                case RequestSent():
                    self._players[event.run_id].outcome.held_s += event.held_s
                case Scheduled(decision="joined"):
                    self._join(event.run_id, event.node_id)
                case NodeFinished():
                    self._end(event)

    def _join(self, run_id: RunId, node_id: NodeId) -> None:
        self._joined.add((run_id, node_id))
        player = self._players[run_id]
        if player.stops(player.call_of(node_id)):
            self._backend.joined.add((run_id, node_id))

    def _end(self, event: NodeFinished) -> None:
        key = event.run_id, event.node_id
        declared_at_s = self._declared_at_s.pop(key, None)
        joined = key in self._joined
        self._joined.discard(key)
        self._backend.joined.discard(key)
        if event.ledger is None or declared_at_s is None:
            return
        outcome = self._players[event.run_id].outcome
        wanted = event.outcome == "ok"
        outcome.book(event.ledger, wanted=wanted, joined=joined)
        if wanted:
            outcome.answered(declared_at_s, event.ledger.first_token_at_s, event.at_s)
