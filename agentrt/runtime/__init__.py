"""The loop that runs programs. It is handed backends, so it imports no engine and no torch."""

from agentrt.runtime.loop_threads import leave_threads
from agentrt.runtime.loop_watch import users_frame
from agentrt.runtime.options import PersonQuestion, RunOptions
from agentrt.runtime.runtime import Runtime

__all__ = ["PersonQuestion", "RunOptions", "Runtime", "leave_threads", "users_frame"]
