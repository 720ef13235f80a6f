"""The loop that runs programs. It is handed backends, so it imports no engine and no torch."""

from agentrt.runtime.options import PersonQuestion, RunOptions
from agentrt.runtime.runtime import Runtime

__all__ = ["PersonQuestion", "RunOptions", "Runtime"]
