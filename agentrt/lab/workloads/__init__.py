"""Programs as they were or might be: what is asked, how long it takes, what waits for what."""

from agentrt.lab.workloads.trace import (
    Arrival,
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    TraceThink,
    Workload,
)

__all__ = [
    "Arrival",
    "Message",
    "OutputOf",
    "Piece",
    "ProgramTrace",
    "ToolUse",
    "TraceCall",
    "TraceResult",
    "TraceThink",
    "Workload",
]
