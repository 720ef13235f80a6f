"""What a run was, told to people and programs: pure text and data, no terminal."""

from agentrt.analysis.bound_text import bound_line
from agentrt.analysis.error_text import error_lines
from agentrt.analysis.gantt import MARKS, Bar, bars, gantt
from agentrt.analysis.latency_line import latency_line, trace_line
from agentrt.analysis.summary import SCHEMA, error_object, summary
from agentrt.analysis.usage import Usage, usage

__all__ = [
    "MARKS",
    "SCHEMA",
    "Bar",
    "Usage",
    "bars",
    "bound_line",
    "error_lines",
    "error_object",
    "gantt",
    "latency_line",
    "summary",
    "trace_line",
    "usage",
]
