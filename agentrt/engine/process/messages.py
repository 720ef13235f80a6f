"""What the engine's process and its owner say to each other, one frame each."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import Capabilities, GenerateRequest, HoleFill, KvHint, SchedulingInfo
from agentrt.protocol.step_output import StepDone
from agentrt.protocol.wire import Wire


@dataclass(frozen=True, slots=True)
class LoadEngine:
    """The first command: build the engine."""

    config: EngineConfig


@dataclass(frozen=True, slots=True)
class Grow:
    """More of a prompt."""

    request_id: RequestId
    fill: HoleFill


@dataclass(frozen=True, slots=True)
class Note:
    """Facts that changed."""

    facts: tuple[SchedulingInfo, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop a request."""

    request_id: RequestId
    reason: str


@dataclass(frozen=True, slots=True)
class Advise:
    """What will become of a prefix."""

    token_ids: tuple[int, ...]
    hint: KvHint
    until_s: float | None = None
    from_tokens: int = 0
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class Prewarm:
    """Constraints that will be asked for."""

    constraints: tuple[ConstraintSpec, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """Say that you are there."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a `Ping`."""


@dataclass(frozen=True, slots=True)
class Quit:
    """Cancel everything, say so, and end."""


Command = LoadEngine | GenerateRequest | Grow | Note | Cancel | Advise | Prewarm | Ping | Quit
Report = Capabilities | StepDone | Pong | ErrorRecord
"""`Capabilities` once, when loaded; `ErrorRecord` as the last word of an engine that fails."""

COMMANDS: Wire[Command] = Wire(
    LoadEngine, GenerateRequest, Grow, Note, Cancel, Advise, Prewarm, Ping, Quit
)
REPORTS: Wire[Report] = Wire(Capabilities, StepDone, Pong, ErrorRecord)
