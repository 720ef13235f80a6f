"""Reading a backend, and closing it."""

from __future__ import annotations

import anyio

from agentrt.base.clock import Clock
from agentrt.base.errors import AgentrtError, EngineUnavailable
from agentrt.protocol.backend import Backend
from agentrt.protocol.step_output import StepDone
from agentrt.runtime.loop import Loop
from agentrt.scheduler import KvRoomLearned


async def read_backend(role: str, backend: Backend, loop: Loop, clock: Clock) -> None:
    """Hand the events of a backend to the loop; its end is that of the loop."""
    try:
        async for event in backend.events():
            if isinstance(event, StepDone) and event.kv_room_tokens:
                loop.post(KvRoomLearned(role, event.kv_room_tokens, clock.now_s()))
            loop.deliver(event)
    except AgentrtError as error:
        loop.end(error)
        return
    loop.end(EngineUnavailable("the engine is gone", hint="Open another runtime"))


async def close_backend(backend: Backend) -> None:
    """Close a backend, even while the caller is being cancelled."""
    with anyio.CancelScope(shield=True):
        await backend.aclose()
