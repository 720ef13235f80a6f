"""Recorded and drawn programs: prompts, lengths, durations and dependencies."""

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
