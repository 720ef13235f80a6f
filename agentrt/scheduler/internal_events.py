"""Events of the scheduler beside those that observers see."""

from __future__ import annotations

from agentrt.base.ids import NodeId, RunId
from agentrt.base.record import record
from agentrt.protocol.events import Event
from agentrt.scheduler.decisions import Decision


@record
class Held:
    """A declared node may not start yet."""

    run_id: RunId
    node_id: NodeId


@record
class Released:
    """A held node may start."""

    run_id: RunId
    node_id: NodeId
    at_s: float = 0.0


@record
class DemandEnded:
    """Code no longer awaits the node."""

    run_id: RunId
    node_id: NodeId


@record
class CancelRequested:
    """The node shall end."""

    run_id: RunId
    node_id: NodeId
    reason: str


@record
class CloseRequested:
    """The output of a generation shall end validly as soon as possible."""

    run_id: RunId
    node_id: NodeId
    at_s: float


@record
class Performed:
    """A decision has been carried out."""

    decision: Decision


InternalEvent = Event | Held | Released | DemandEnded | CancelRequested | CloseRequested | Performed
