"""What a run was, told to people and programs: pure text and data, no terminal."""

from agentrt.report.errors import error_lines
from agentrt.report.line import latency_line
from agentrt.report.summary import SCHEMA, error_object, summary
from agentrt.report.usage import Usage, usage

__all__ = [
    "SCHEMA",
    "Usage",
    "error_lines",
    "error_object",
    "latency_line",
    "summary",
    "usage",
]
