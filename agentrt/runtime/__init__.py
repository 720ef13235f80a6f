"""The loop that runs programs. It is handed backends, so it imports no engine and no torch."""

from typing import TYPE_CHECKING

from agentrt.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from agentrt.runtime.loop_threads import leave_threads as leave_threads
    from agentrt.runtime.loop_watch import users_frame as users_frame
    from agentrt.runtime.options import PersonQuestion as PersonQuestion
    from agentrt.runtime.options import RunOptions as RunOptions
    from agentrt.runtime.run_events import EventsLost as EventsLost
    from agentrt.runtime.run_events import ItemWritten as ItemWritten
    from agentrt.runtime.run_events import NodeEnded as NodeEnded
    from agentrt.runtime.run_events import NodeStarted as NodeStarted
    from agentrt.runtime.run_events import RunEnded as RunEnded
    from agentrt.runtime.run_events import RunEvent as RunEvent
    from agentrt.runtime.run_events import TextEmitted as TextEmitted
    from agentrt.runtime.run_events import TextWithdrawn as TextWithdrawn
    from agentrt.runtime.run_events import TextWritten as TextWritten
    from agentrt.runtime.run_events import ToolCalled as ToolCalled
    from agentrt.runtime.run_events import ToolReturned as ToolReturned
    from agentrt.runtime.run_map import MapProgress as MapProgress
    from agentrt.runtime.run_map import MapResult as MapResult
    from agentrt.runtime.run_map import RunMap as RunMap
    from agentrt.runtime.runtime import Runtime as Runtime
    from agentrt.runtime.started_run import StartedRun as StartedRun

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "loop_threads": "leave_threads",
        "loop_watch": "users_frame",
        "options": "PersonQuestion RunOptions",
        "run_events": "EventsLost ItemWritten NodeEnded NodeStarted RunEnded RunEvent TextEmitted "
        "TextWithdrawn TextWritten ToolCalled ToolReturned",
        "run_map": "MapProgress MapResult RunMap",
        "runtime": "Runtime",
        "started_run": "StartedRun",
    },
)
