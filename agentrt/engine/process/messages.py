"""Messages between the engine's process and its owner, one frame each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.step_output import StepDone
from agentrt.protocol.wire import Wire


@dataclass(frozen=True, slots=True)
class LoadEngine:
    """First command: load the engine."""

    config: EngineConfig


@dataclass(frozen=True, slots=True)
class ExtendPrompt:
    """Append tokens to an incomplete prompt."""

    request_id: RequestId
    fill: HoleFill


@dataclass(frozen=True, slots=True)
class Reprioritize:
    """Replace the scheduling info of requests."""

    updates: tuple[SchedulingInfo, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Abort a request."""

    request_id: RequestId
    reason: str


@dataclass(frozen=True, slots=True)
class Prewarm:
    """Compile constraints ahead of their requests."""

    constraints: tuple[ConstraintSpec, ...]


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Cancel everything, report it, and end."""


Request = GenerateRequest | ExtendPrompt | Reprioritize | Cancel
Command = LoadEngine | Prewarm | Request | PrefixHint | Shutdown
Report = Capabilities | StepDone | ErrorRecord
"""`Capabilities` once, when loaded; `ErrorRecord` as the last report of an engine that fails."""

COMMANDS: Wire[Command] = Wire(*get_args(Command))
REPORTS: Wire[Report] = Wire(*get_args(Report))
