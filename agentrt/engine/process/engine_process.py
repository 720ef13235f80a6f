"""One engine in its process (or thread), from its launch to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import anyio
import anyio.to_thread

from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import EngineDied, record_of
from agentrt.engine.process import messages
from agentrt.engine.process.child import Child, ChildExit
from agentrt.engine.process.death import Death
from agentrt.engine.process.life_signs import LifeSigns
from agentrt.engine.process.messages import Command
from agentrt.engine.process.pipe import Pipe
from agentrt.engine.process.process_state import count_oom_kills, process_state
from agentrt.engine.process.vitals import CHECK_S, Verdict, Vitals
from agentrt.protocol.backend import Capabilities
from agentrt.protocol.step_output import StepDone

_SHUTDOWN_S = 0.3
"""Seconds for an engine to end its requests and itself; all runs are over by then."""

_REAP_S = 2.0


class EngineProcess:
    """An engine that was launched. It is killed if it is stopped or hangs.

    Args:
        child: The engine's end of a connection.
        on_step: Called with the output of each step.
    """

    def __init__(self, child: Child, on_step: Callable[[StepDone], None]) -> None:
        self._child = child
        self._pipe = Pipe(child.owner_socket, on_step)
        self._verdict: Verdict = "alive"
        self._watch: asyncio.Task[None] | None = None
        self._reaping: asyncio.Task[ChildExit] | None = None
        self._oom_kills = count_oom_kills()

    @property
    def pid(self) -> int | None:
        """Id of the process; None once it has ended, and for a thread."""
        return None if self._pipe.closed.is_set() else self._child.pid

    @property
    def capabilities(self) -> Capabilities | None:
        """Capabilities of the engine; None while it loads."""
        return self._pipe.capabilities

    @property
    def is_up(self) -> bool:
        """Whether it has loaded and not ended."""
        return self._pipe.capabilities is not None and not self._pipe.closed.is_set()

    def send(self, command: Command) -> None:
        """Send one command; it is lost if the engine has ended."""
        self._pipe.send(command)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Compile constraints ahead; before `load` it does nothing."""
        if self._pipe.is_connected:
            self._pipe.send(messages.Prewarm(constraints))

    async def load(self, config: EngineConfig, constraints: Iterable[ConstraintSpec]) -> bool:
        """Connect, and wait until the engine has loaded or ended; True if it has loaded.

        Args:
            config: Config of the engine.
            constraints: Constraints to compile before it counts as loaded.
        """
        await self._pipe.connect()
        if self._child.signs is not None:
            self._watch = asyncio.create_task(self._watch_signs(self._child.signs))
        self._pipe.send(messages.LoadEngine(config))
        if prewarmed := tuple(constraints):
            self._pipe.send(messages.Prewarm(prewarmed))
        await self._pipe.settled.wait()
        self._oom_kills = count_oom_kills() if self.is_up else self._oom_kills
        return self._pipe.capabilities is not None

    async def wait_closed(self) -> None:
        """Wait until the connection is closed: the engine ends, or has ended."""
        await self._pipe.closed.wait()

    async def death(self) -> Death:
        """How the engine ended, once its connection is closed."""
        child_exit = await self._reap()
        oom_kills = count_oom_kills() - self._oom_kills
        return Death(child_exit, self._pipe.last_error, self._verdict, oom_kills)

    async def shut_down(self) -> None:
        """Let the engine end its requests and itself, for a moment."""
        if self.is_up:
            self._pipe.send(messages.Shutdown())
            with anyio.move_on_after(_SHUTDOWN_S):
                await self._pipe.closed.wait()

    async def end(self) -> None:
        """End the engine at once, and wait for its end. Idempotent."""
        if self._watch is not None:
            self._watch.cancel()
        if not self._pipe.closed.is_set():
            self._child.kill()
        self._pipe.abort()
        await self._reap()

    def abandon(self) -> None:
        """End an engine that was launched outside of an event loop. Blocks."""
        self._child.kill()
        self._child.wait(_REAP_S)
        self._pipe.abort()

    async def _reap(self) -> ChildExit:
        """Wait for the end of the child, once for all callers."""
        if self._reaping is None:
            waiting = anyio.to_thread.run_sync(self._child.wait, _REAP_S)
            self._reaping = asyncio.create_task(waiting)
        return await asyncio.shield(self._reaping)

    async def _watch_signs(self, signs: LifeSigns) -> None:
        """Kill the engine if it is stopped or hangs."""
        vitals, looked_s = Vitals(), anyio.current_time()
        while not self._pipe.closed.is_set():
            await asyncio.sleep(CHECK_S)
            reading, now_s = signs.read(), anyio.current_time()
            verdict = vitals.look(reading, process_state(self._child.pid or 0), now_s - looked_s)
            looked_s = now_s
            if verdict != "alive" and not self._pipe.closed.is_set():
                self._verdict = verdict
                self._pipe.last_error = record_of(EngineDied(vitals.describe(verdict)))
                self._child.kill()
                self._pipe.abort()
