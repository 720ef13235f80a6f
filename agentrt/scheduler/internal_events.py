"""Events of the scheduler beside those that observers see."""

from __future__ import annotations

from agentrt.base.ids import NodeId, RunId
from agentrt.base.record import record
from agentrt.protocol.events import Event
from agentrt.scheduler.decisions import Decision


@record
class NodeEvent:
    """An event of one node.

    Attributes:
        run_id: Run of the node.
        node_id: The node.
    """

    run_id: RunId
    node_id: NodeId


@record
class Held(NodeEvent):
    """A declared node may not start yet."""


@record
class Released(NodeEvent):
    """A held node may start."""

    at_s: float = 0.0


@record
class DemandEnded(NodeEvent):
    """Code no longer awaits the node."""


@record
class CancelRequested(NodeEvent):
    """The node shall end."""

    reason: str


@record
class CloseRequested(NodeEvent):
    """The output of a generation shall end validly as soon as possible."""

    at_s: float


@record
class OptionsKnown(NodeEvent):
    """The options of an output that a thread was to write are written."""


@record
class TextYielded(NodeEvent):
    """A tool has yielded text of its result."""


@record
class KvRoomLearned:
    """The KV memory of an engine has become known, or is another.

    Attributes:
        role: Role of the engine.
        kv_tokens: KV tokens that runs may count on.
        at_s: Instant.
    """

    role: str
    kv_tokens: float
    at_s: float


InternalEvent = (
    Event
    | Held
    | Released
    | DemandEnded
    | CancelRequested
    | CloseRequested
    | OptionsKnown
    | TextYielded
    | KvRoomLearned
    | Decision  # carried out
)
