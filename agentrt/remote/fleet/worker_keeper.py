"""The keeper of one worker: opens it, notices that it is gone or hung, and finds it again.

A worker that has requests and sends nothing is asked by a cheap door whether it lives. One that
does not answer has hung, or its packets vanish: no reset comes, and without the question its
requests would wait for `silence_s`. A worker that is down is asked at growing pauses, and comes
back by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from agentrt.base.errors import AgentrtError, EngineDied, EngineUnavailable, UsageError
from agentrt.remote.fleet.fleet_times import FleetTimes
from agentrt.remote.fleet.fleet_worker import FleetWorker


class WorkerKeeper:
    """Keeps one worker.

    Args:
        worker: The worker.
        times: Times of the fleet.
        check_model: Asks it for its model; gives the error if that is not the fleet's.
        on_open: Called when it is open for the first time; says what it lacks, or "".
        on_change: Called when its health has changed; says whether its memory is likely lost.
        on_hung: Called when it has hung, with the error of its requests.
    """

    def __init__(
        self,
        worker: FleetWorker,
        times: FleetTimes,
        check_model: Callable[[FleetWorker], Awaitable[UsageError | None]],
        on_open: Callable[[FleetWorker], str],
        on_change: Callable[[FleetWorker, bool], None],
        on_hung: Callable[[FleetWorker, EngineDied], None],
    ) -> None:
        self._worker = worker
        self._times = times
        self._check_model = check_model
        self._on_open = on_open
        self._on_change = on_change
        self._on_hung = on_hung
        self._is_restarted = False
        self.tried = anyio.Event()

    async def run(self) -> None:
        """Keep the worker until cancelled; one that is unfit is left."""
        pause_s, worker = self._times.first_pause_s, self._worker
        while worker.health != "unfit":
            if await (self._returned() if worker.is_open else self._opened()):
                pause_s = self._times.first_pause_s
                self._become("up")
                self.tried.set()
                await self._watch()
                self._become("down")
                continue
            self.tried.set()
            if anyio.current_time() - worker.quiet_since_s >= self._times.quiet_s:
                self._abandon()
            await anyio.sleep(pause_s)
            pause_s = min(self._times.most_pause_s, 2 * pause_s)

    def _become(self, health: str) -> None:
        worker, is_restarted = self._worker, self._is_restarted
        if health == "up":
            worker.why, self._is_restarted = None, False
            worker.health, worker.is_suspect = "up", False
        else:
            worker.health = "down"
        self._on_change(worker, health == "up" and is_restarted)

    async def _opened(self) -> bool:
        """Open the worker; whether it is open now."""
        worker = self._worker
        if not await self._asked():
            worker.health = "down"
            return False
        try:
            with anyio.fail_after(self._times.open_s):
                await worker.backend.start()
        except TimeoutError:
            open_s = self._times.open_s
            worker.why = EngineUnavailable(f"{worker.name} was not open within {open_s:g} s")
            return False
        except AgentrtError as error:
            worker.why = error
            is_wrong = isinstance(error, UsageError)
            worker.health = "unfit" if is_wrong else "down"
            return False
        if not await self._serves_model():
            return False
        if lack := self._on_open(worker):
            worker.health, worker.why = "unfit", EngineUnavailable(lack)
            return False
        worker.is_open = True
        return True

    async def _returned(self) -> bool:
        """Ask a worker that was open before; whether it takes the requests of the fleet."""
        return await self._asked() and await self._serves_model()

    async def _serves_model(self) -> bool:
        """Whether the worker serves the model of the fleet; one that does not is left."""
        worker, error = self._worker, await self._check_model(self._worker)
        if error is None:
            return True
        worker.health, worker.why = "unfit", error
        if worker.requests:
            self._on_hung(worker, EngineDied(error.message))
        return False

    async def _asked(self) -> bool:
        """Ask the worker whether it takes requests."""
        worker = self._worker
        try:
            with anyio.fail_after(self._times.answer_s):
                await worker.remote.check_life()
        except TimeoutError:
            answer_s = self._times.answer_s
            worker.why = EngineUnavailable(f"{worker.name} gave no answer within {answer_s:g} s")
        except AgentrtError as error:
            worker.why = error
            self._is_restarted = True
        else:
            return True
        return False

    async def _watch(self) -> None:
        """Wait until the worker has lost a request or does not answer."""
        worker = self._worker
        while not worker.is_suspect:
            if not worker.requests:
                await worker.wake.wait()
                worker.wake.clear()
                continue
            quiet_s = anyio.current_time() - worker.quiet_since_s
            if quiet_s < self._times.quiet_s:
                with anyio.move_on_after(self._times.quiet_s - quiet_s):
                    await worker.wake.wait()
                worker.wake.clear()
                continue
            asked_at_s = anyio.current_time()
            if not await self._asked() and worker.remote.heard_at_s < asked_at_s:
                self._abandon()
                return

    def _abandon(self) -> None:
        """Give up the requests of a worker that does not answer and sends nothing."""
        worker = self._worker
        if worker.requests:
            why = "is gone" if worker.why is None else f"is gone: {worker.why.message}"
            self._on_hung(worker, EngineDied(f"the worker at {worker.name} {why}"))
