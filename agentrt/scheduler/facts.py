"""What the scheduler is told besides the events that everybody sees."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.events import Event
from agentrt.ids import NodeId, RunId
from agentrt.scheduler.decisions import Decision


@dataclass(frozen=True, slots=True)
class Held:
    """A node that was declared may not start yet."""

    run_id: RunId
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Released:
    """A node that was held may start."""

    run_id: RunId
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class DemandEnded:
    """Nobody waits for the node any more."""

    run_id: RunId
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class CancelWanted:
    """Somebody wants the node to end."""

    run_id: RunId
    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class Performed:
    """A decision was carried out."""

    decision: Decision


Fact = Event | Held | Released | DemandEnded | CancelWanted | Performed
