"""Tools: the schema of a function for a model, and its execution. No node here."""

from agentrt.tools.attempt import AttemptEnded, AttemptStarted, OnAttempt
from agentrt.tools.execute import execute
from agentrt.tools.spec import Effects, ToolSpec, declared_tool, prepare_declared
from agentrt.tools.workers import running_calls
from agentrt.tools.write_calls import WriteCalls

__all__ = [
    "AttemptEnded",
    "AttemptStarted",
    "Effects",
    "OnAttempt",
    "ToolSpec",
    "WriteCalls",
    "declared_tool",
    "execute",
    "prepare_declared",
    "running_calls",
]
