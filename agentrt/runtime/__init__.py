"""The loop that runs programs. It is handed backends, so it imports no engine and no torch."""

from agentrt.runtime.loop_threads import leave_threads
from agentrt.runtime.loop_watch import users_frame
from agentrt.runtime.options import PersonQuestion, RunOptions
from agentrt.runtime.run_events import (
    EventsLost,
    ItemWritten,
    NodeEnded,
    NodeStarted,
    RunEnded,
    RunEvent,
    TextEmitted,
    TextWithdrawn,
    TextWritten,
    ToolCalled,
    ToolReturned,
)
from agentrt.runtime.run_map import MapProgress, MapResult, RunMap
from agentrt.runtime.runtime import Runtime
from agentrt.runtime.started_run import StartedRun

__all__ = [
    "EventsLost",
    "ItemWritten",
    "MapProgress",
    "MapResult",
    "NodeEnded",
    "NodeStarted",
    "PersonQuestion",
    "RunEnded",
    "RunEvent",
    "RunMap",
    "RunOptions",
    "Runtime",
    "StartedRun",
    "TextEmitted",
    "TextWithdrawn",
    "TextWritten",
    "ToolCalled",
    "ToolReturned",
    "leave_threads",
    "users_frame",
]
