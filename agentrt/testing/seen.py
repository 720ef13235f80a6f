"""Calls of a scripted backend, for tests to inspect."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import GenerateRequest, HoleFill, PrefixHint, SchedulingInfo
from agentrt.protocol.step_output import StepRecord


@dataclass(slots=True)
class SeenByBackend:
    """Calls of a scripted backend, in order.

    Attributes:
        requests: Every request submitted.
        prompts: Prompt text of each admitted request.
        fills: Every hole filled.
        updates: Scheduling info, one entry an update of a request.
        cancels: Reason by request.
        hints: Every hint.
        prewarmed: Constraints announced ahead.
        steps: Every step.
        problems: Faults of the script itself, such as an answer that no engine could give.
    """

    requests: list[GenerateRequest] = field(default_factory=list)
    prompts: dict[RequestId, str] = field(default_factory=dict)
    fills: list[tuple[RequestId, HoleFill]] = field(default_factory=list)
    updates: list[SchedulingInfo] = field(default_factory=list)
    cancels: dict[RequestId, str] = field(default_factory=dict)
    hints: list[PrefixHint] = field(default_factory=list)
    prewarmed: list[ConstraintSpec] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    problems: list[AgentrtError] = field(default_factory=list)
