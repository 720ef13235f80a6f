"""The loop that runs programs. It is handed backends, so it imports no engine and no torch."""

from agentrt.runtime.loop_threads import leave_threads
from agentrt.runtime.loop_watch import users_frame
from agentrt.runtime.options import PersonQuestion, RunOptions
from agentrt.runtime.run_map import MapProgress, MapResult, RunMap
from agentrt.runtime.runtime import Runtime

__all__ = [
    "MapProgress",
    "MapResult",
    "PersonQuestion",
    "RunMap",
    "RunOptions",
    "Runtime",
    "leave_threads",
    "users_frame",
]
