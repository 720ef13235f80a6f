"""Programs as they were or might be: what is asked, how long it takes, what waits for what."""

from agentrt.lab.workloads.trace import (
    Arrival,
    Call,
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ResultOf,
    Think,
    ToolUse,
    Workload,
)

__all__ = [
    "Arrival",
    "Call",
    "Message",
    "OutputOf",
    "Piece",
    "ProgramTrace",
    "ResultOf",
    "Think",
    "ToolUse",
    "Workload",
]
