"""What the scheduler may decide. Each is carried out once and then reported back as `Performed`."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.backend import RequestFacts
from agentrt.ids import NodeId, RunId


@dataclass(frozen=True, slots=True)
class Send:
    """Hand a generation to its engine, complete or with holes."""

    run_id: RunId
    node_id: NodeId
    demanded: bool
    deadline_at_s: float | None


@dataclass(frozen=True, slots=True)
class Fill:
    """Something that a generation waits for is known: bring its prompt up to date."""

    run_id: RunId
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Start:
    """Start a tool, a program or a question."""

    run_id: RunId
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Stop:
    """End a node that somebody cancelled."""

    run_id: RunId
    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class Expire:
    """End a node whose deadline has passed."""

    run_id: RunId
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell an engine what the order of its waiting work depends on.

    Attributes:
        model: Role of the engine.
        facts: What changed.
    """

    model: str
    facts: tuple[RequestFacts, ...]


Decision = Send | Fill | Start | Stop | Expire | Tell
