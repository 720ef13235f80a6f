"""What a run was, told to people and programs: pure text and data, no terminal."""

from agentrt.report.bound import bound_line
from agentrt.report.errors import error_lines
from agentrt.report.gantt import MARKS, Bar, bars, gantt
from agentrt.report.line import latency_line, trace_line
from agentrt.report.summary import SCHEMA, error_object, summary
from agentrt.report.usage import Usage, usage

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
