"""Decisions of the scheduler; each is carried out once and is then an event that `apply` takes."""

from __future__ import annotations

from agentrt.base.ids import NodeId, RunId
from agentrt.base.record import record
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.priority_key import KeyTerms


@record
class NodeDecision:
    """A decision about one node.

    Attributes:
        run_id: Run of the node.
        node_id: The node.
    """

    run_id: RunId
    node_id: NodeId


@record
class Send(NodeDecision):
    """Hand a generation to its engine, complete or with holes.

    Attributes:
        info: Scheduling info of the request, its number included.
        held_s: Seconds for which admission control held it back.
    """

    info: SchedulingInfo
    held_s: float = 0.0


@record
class Fill(NodeDecision):
    """Update the prompt of a generation: an input of it has become known."""


@record
class Start(NodeDecision):
    """Start a tool, a program or a question."""


@record
class StopNode(NodeDecision):
    """End a cancelled node."""

    reason: str


@record
class Expire(NodeDecision):
    """End a node at its deadline."""


@record
class UpdateInfo:
    """Update the scheduling info of requests in flight.

    Attributes:
        model: Role of the engine.
        updates: Info of each request with changed info.
    """

    model: str
    updates: tuple[SchedulingInfo, ...]


@record
class AdmissionDecision:
    """Decision of admission control about a run.

    Attributes:
        run_id: Id of the run.
        node_id: First generation of the run that is held back.
        admitted: Whether the run is admitted.
        reason: Short explanation.
        terms: Quantities that were weighed, by name.
    """

    run_id: RunId
    node_id: NodeId
    admitted: bool
    reason: str
    terms: KeyTerms


@record
class Admit:
    """Admit runs, and explain why others are held back.

    Attributes:
        decisions: Admitted runs, and newly held ones.
        at_s: Instant of the decision.
        closed: Whether admission control holds runs back from now on.
    """

    decisions: tuple[AdmissionDecision, ...]
    at_s: float
    closed: bool


@record
class Refusal:
    """Why a run is not begun.

    Attributes:
        left_s: Time until its deadline, in seconds.
        expected_s: Median duration of past runs without waiting, in seconds.
        runs: Number of those runs.
        path: Likeliest call sites, with the median time of each.
    """

    left_s: float
    expected_s: float
    runs: int
    path: tuple[tuple[str, float], ...]


@record
class Refuse(NodeDecision):
    """End a run before it begins: it cannot meet its deadline."""

    refusal: Refusal


Decision = Send | Fill | Start | StopNode | Expire | UpdateInfo | Admit | Refuse
