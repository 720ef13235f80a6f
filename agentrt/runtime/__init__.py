"""The loop that runs programs. It is handed backends, so it imports no engine and no torch."""

from agentrt.runtime.options import Question, RunOptions
from agentrt.runtime.runtime import Runtime

__all__ = ["Question", "RunOptions", "Runtime"]
