"""What the scheduler may decide. Each is carried out once and then reported back as `Performed`."""

from __future__ import annotations

from agentrt.base.ids import NodeId, RunId
from agentrt.base.record import record
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.priority_key import KeyTerms


@record
class Send:
    """Hand a generation to its engine, complete or with holes.

    Attributes:
        run_id: Its run.
        node_id: The generation.
        info: Scheduling info of the request, its number included.
        held_s: For how long the admission gate has held it.
    """

    run_id: RunId
    node_id: NodeId
    info: SchedulingInfo
    held_s: float = 0.0


@record
class Fill:
    """Something that a generation waits for is known: bring its prompt up to date."""

    run_id: RunId
    node_id: NodeId


@record
class Start:
    """Start a tool, a program or a question."""

    run_id: RunId
    node_id: NodeId


@record
class StopNode:
    """End a node that somebody cancelled."""

    run_id: RunId
    node_id: NodeId
    reason: str


@record
class Expire:
    """End a node whose deadline has passed."""

    run_id: RunId
    node_id: NodeId


@record
class UpdateInfo:
    """Update the scheduling info of requests in flight.

    Attributes:
        model: Role of the engine.
        updates: Info of each request whose info changed.
    """

    model: str
    updates: tuple[SchedulingInfo, ...]


@record
class AdmissionDecision:
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
    terms: KeyTerms


@record
class Admit:
    """Let runs through the admission gate, and say which have to wait.

    Attributes:
        verdicts: Those let in, and those that wait and were not told yet.
        at_s: When it was decided.
        closed: Whether the gate holds runs back from here on.
    """

    verdicts: tuple[AdmissionDecision, ...]
    at_s: float
    closed: bool


@record
class Refusal:
    """Why a run is not begun.

    Attributes:
        left_s: Time until its deadline.
        expected_s: Median of what past runs of it took where nothing waited.
        runs: How many those were.
        path: The likeliest call sites, with the median time of each.
    """

    left_s: float
    expected_s: float
    runs: int
    path: tuple[tuple[str, float], ...]


@record
class Refuse:
    """End a run before it begins: it cannot be done in time."""

    run_id: RunId
    node_id: NodeId
    refusal: Refusal


Decision = Send | Fill | Start | StopNode | Expire | UpdateInfo | Admit | Refuse
