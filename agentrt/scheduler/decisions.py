"""What the scheduler may decide. Each is carried out once and then reported back as `Performed`."""

from __future__ import annotations

from agentrt.backend import RequestFacts
from agentrt.fact import fact
from agentrt.ids import NodeId, RunId


@fact
class Send:
    """Hand a generation to its engine, complete or with holes."""

    run_id: RunId
    node_id: NodeId
    demanded: bool
    deadline_at_s: float | None


@fact
class Fill:
    """Something that a generation waits for is known: bring its prompt up to date."""

    run_id: RunId
    node_id: NodeId


@fact
class Start:
    """Start a tool, a program or a question."""

    run_id: RunId
    node_id: NodeId


@fact
class Stop:
    """End a node that somebody cancelled."""

    run_id: RunId
    node_id: NodeId
    reason: str


@fact
class Expire:
    """End a node whose deadline has passed."""

    run_id: RunId
    node_id: NodeId


@fact
class Tell:
    """Tell an engine what the order of its waiting work depends on.

    Attributes:
        model: Role of the engine.
        facts: What changed.
    """

    model: str
    facts: tuple[RequestFacts, ...]


Decision = Send | Fill | Start | Stop | Expire | Tell
