"""A runtime for agent programs: it sees the program, not requests."""

from typing import TYPE_CHECKING, Any

import agentrt_command  # noqa: F401  # first: from here on `python -m agentrt` may be interrupted
from agentrt.base.config import EngineConfig, LoraAdapter, RunConfig, SchedulerConfig
from agentrt.base.engines import RemoteEngineConfig
from agentrt.base.errors import (
    AgentrtError,
    AnswerRefused,
    BackendError,
    BudgetExceeded,
    CheckFailed,
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    Degenerate,
    EngineDied,
    EngineUnavailable,
    InternalError,
    LimitExceeded,
    ModelInvalid,
    NodeCancelled,
    NoRun,
    NotInstalled,
    NotYetKnown,
    OutcomeUnknown,
    OutOfPages,
    OutputDiverged,
    OutputUnreadable,
    ProgramError,
    RequestRejected,
    RunTooLarge,
    ToolError,
    ToolFailed,
    Truncated,
    Unsupported,
    UsageError,
)
from agentrt.base.one_of import OneOf
from agentrt.base.prices import Prices
from agentrt.program import (
    Calls,
    Chat,
    Constraint,
    Each,
    Final,
    Gen,
    GenMeta,
    GenOptions,
    Node,
    OnOverflow,
    Overflow,
    Partial,
    Program,
    Score,
    Tagged,
    TaggedText,
    Tags,
    Tool,
    ToolCall,
    ask,
    capture,
    cfg,
    chat,
    choice,
    emit,
    fan,
    gather,
    json_schema,
    limits,
    program,
    race,
    regex,
    set_default_runner,
    tag,
    tool,
    trim,
    typed,
)
from agentrt.protocol.events import Observer
from agentrt.tools import idempotency_key

if TYPE_CHECKING:
    from agentrt.app import open_runtime
    from agentrt.base.redaction import redact_content
    from agentrt.mcp import mcp_tools
    from agentrt.program.agent import AgentResult, agent
    from agentrt.program.splitting import split
    from agentrt.runtime import (
        EventsLost,
        ItemWritten,
        MapProgress,
        MapResult,
        NodeEnded,
        NodeStarted,
        PersonQuestion,
        RunEnded,
        RunEvent,
        RunMap,
        RunOptions,
        Runtime,
        StartedRun,
        TextEmitted,
        TextWithdrawn,
        TextWritten,
        ToolCalled,
        ToolReturned,
    )

__all__ = [
    "AgentResult",
    "AgentrtError",
    "AnswerRefused",
    "BackendError",
    "BudgetExceeded",
    "Calls",
    "Chat",
    "CheckFailed",
    "Constraint",
    "ConstraintError",
    "ContextOverflow",
    "DeadlineExceeded",
    "Degenerate",
    "Each",
    "EngineConfig",
    "EngineDied",
    "EngineUnavailable",
    "EventsLost",
    "Final",
    "Gen",
    "GenMeta",
    "GenOptions",
    "InternalError",
    "ItemWritten",
    "LimitExceeded",
    "LoraAdapter",
    "MapProgress",
    "MapResult",
    "ModelInvalid",
    "NoRun",
    "Node",
    "NodeCancelled",
    "NodeEnded",
    "NodeStarted",
    "NotInstalled",
    "NotYetKnown",
    "Observer",
    "OnOverflow",
    "OneOf",
    "OutOfPages",
    "OutcomeUnknown",
    "OutputDiverged",
    "OutputUnreadable",
    "Overflow",
    "Partial",
    "PersonQuestion",
    "Prices",
    "Program",
    "ProgramError",
    "RemoteEngineConfig",
    "RequestRejected",
    "RunConfig",
    "RunEnded",
    "RunEvent",
    "RunMap",
    "RunOptions",
    "RunTooLarge",
    "Runtime",
    "SchedulerConfig",
    "Score",
    "StartedRun",
    "Tagged",
    "TaggedText",
    "Tags",
    "TextEmitted",
    "TextWithdrawn",
    "TextWritten",
    "Tool",
    "ToolCall",
    "ToolCalled",
    "ToolError",
    "ToolFailed",
    "ToolReturned",
    "Truncated",
    "Unsupported",
    "UsageError",
    "agent",
    "ask",
    "capture",
    "cfg",
    "chat",
    "choice",
    "emit",
    "fan",
    "gather",
    "idempotency_key",
    "json_schema",
    "limits",
    "mcp_tools",
    "open_runtime",
    "program",
    "race",
    "redact_content",
    "regex",
    "split",
    "tag",
    "tool",
    "trim",
    "typed",
]


def __getattr__(name: str) -> Any:
    """Names that few programs or only running needs, imported on first access."""
    if name == "open_runtime":
        from agentrt.app import open_runtime

        return open_runtime
    if name == "redact_content":
        from agentrt.base.redaction import redact_content

        return redact_content
    if name == "mcp_tools":
        from agentrt.mcp import mcp_tools

        return mcp_tools
    if name == "split":
        from agentrt.program.splitting import split

        return split
    if name in ("AgentResult", "agent"):
        from agentrt.program import agent

        return getattr(agent, name)
    if name in __all__:
        from agentrt import runtime

        return getattr(runtime, name)
    raise AttributeError(f"module 'agentrt' has no attribute {name!r}")


def _run(*given: Any) -> Any:
    from agentrt.app import run_here

    return run_here(*given)


set_default_runner(_run)
del set_default_runner
