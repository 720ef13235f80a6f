"""What the scheduler may decide. Each is carried out once and then reported back as `Performed`."""

from __future__ import annotations

from agentrt.backend import RequestFacts
from agentrt.fact import fact
from agentrt.ids import NodeId, RunId
from agentrt.scheduler.deadline import Refusal
from agentrt.scheduler.key import Terms


@fact
class Send:
    """Hand a generation to its engine, complete or with holes.

    Attributes:
        run_id: Its run.
        node_id: The generation.
        facts: What its place among waiting requests depends on, and the number of the request.
        held_s: For how long the admission gate has held it.
    """

    run_id: RunId
    node_id: NodeId
    facts: RequestFacts
    held_s: float = 0.0


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


@fact
class Verdict:
    """What the gate decided about a run.

    Attributes:
        run_id: The run.
        node_id: Its first generation that waits at the gate.
        admitted: Whether it was let in.
        reason: In a few words.
        terms: What was weighed, by name.
    """

    run_id: RunId
    node_id: NodeId
    admitted: bool
    reason: str
    terms: Terms


@fact
class Admit:
    """Let runs through the admission gate, and say which have to wait.

    Attributes:
        verdicts: Those let in, and those that wait and were not told yet.
        at_s: When it was decided.
        closed: Whether the gate holds runs back from here on.
    """

    verdicts: tuple[Verdict, ...]
    at_s: float
    closed: bool


@fact
class Refuse:
    """End a run before it begins: it cannot be done in time."""

    run_id: RunId
    node_id: NodeId
    refusal: Refusal


Decision = Send | Fill | Start | Stop | Expire | Tell | Admit | Refuse
