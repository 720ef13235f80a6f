"""Tools: the schema of a function for a model, and its execution. No node here."""

from agentrt.tools.attempt import AttemptEnded, AttemptStarted, OnAttempt
from agentrt.tools.execute import execute
from agentrt.tools.spec import (
    BACKOFF_S,
    EFFECTS,
    Backoff,
    Effects,
    ToolSpec,
    declared_tool,
    prepare_declared,
)
from agentrt.tools.workers import running_calls
from agentrt.tools.write_calls import (
    WriteCalls,
    hold_notice,
    unknown_notice,
    writes_under_way,
)
from agentrt.tools.write_log import (
    OnTool,
    OnWrite,
    WriteCall,
    idempotency_key,
    idempotency_key_of,
    tool_call_key,
)

__all__ = [
    "BACKOFF_S",
    "EFFECTS",
    "AttemptEnded",
    "AttemptStarted",
    "Backoff",
    "Effects",
    "OnAttempt",
    "OnTool",
    "OnWrite",
    "ToolSpec",
    "WriteCall",
    "WriteCalls",
    "declared_tool",
    "execute",
    "hold_notice",
    "idempotency_key",
    "idempotency_key_of",
    "prepare_declared",
    "running_calls",
    "tool_call_key",
    "unknown_notice",
    "writes_under_way",
]
