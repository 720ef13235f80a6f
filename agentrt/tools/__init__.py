"""Tools: what a function tells a model of itself, and how it is run. No node here."""

from agentrt.tools.attempt import AttemptEnded, AttemptStarted, OnAttempt
from agentrt.tools.execute import execute
from agentrt.tools.spec import Effects, ToolSpec, declared, prepare_declared
from agentrt.tools.workers import calls_under_way

__all__ = [
    "AttemptEnded",
    "AttemptStarted",
    "Effects",
    "OnAttempt",
    "ToolSpec",
    "calls_under_way",
    "declared",
    "execute",
    "prepare_declared",
]
