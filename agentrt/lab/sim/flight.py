"""Steps of a simulated engine while they are under way, and what they changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrt.base.ids import RequestId
from agentrt.engine.scheduling.scheduler import ScheduledSequence
from agentrt.lab.sim.costs import StepWork
from agentrt.protocol.step_output import StepDone, StepRecord


@dataclass(slots=True, eq=False)
class Flight:
    """One step, or several equal ones, under way.

    Attributes:
        records: What will be told of each.
        work: What the first computes.
        members: Sequences in it, with the tokens that each computes in one step.
        decodes: Of each, whether its prompt had been computed before.
    """

    records: list[StepRecord]
    work: StepWork
    members: list[ScheduledSequence]
    decodes: list[bool]

    @property
    def ended_at_s(self) -> float:
        """When the last of them is over."""
        return self.records[-1].ended_at_s


@dataclass(slots=True, eq=False)
class Landing:
    """What a flight changed.

    Attributes:
        steps: One a step; ends are in the last.
        grown: Requests that got tokens, with the length of their output now.
    """

    steps: list[StepDone]
    grown: list[tuple[RequestId, int]] = field(default_factory=list)
