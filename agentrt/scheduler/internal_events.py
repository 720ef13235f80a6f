"""What the scheduler is told besides the events that everybody sees."""

from __future__ import annotations

from agentrt.base.ids import NodeId, RunId
from agentrt.base.record import record
from agentrt.protocol.events import Event
from agentrt.scheduler.decisions import Decision


@record
class Held:
    """A node that was declared may not start yet."""

    run_id: RunId
    node_id: NodeId


@record
class Released:
    """A node that was held may start."""

    run_id: RunId
    node_id: NodeId
    at_s: float = 0.0


@record
class DemandEnded:
    """Nobody waits for the node any more."""

    run_id: RunId
    node_id: NodeId


@record
class CancelWanted:
    """Somebody wants the node to end."""

    run_id: RunId
    node_id: NodeId
    reason: str


@record
class CloseWanted:
    """Somebody wants the output of a generation to end validly, as soon as it can."""

    run_id: RunId
    node_id: NodeId
    at_s: float


@record
class Performed:
    """A decision was carried out."""

    decision: Decision


InternalEvent = Event | Held | Released | DemandEnded | CancelWanted | CloseWanted | Performed
