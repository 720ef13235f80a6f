"""The workers of a fleet together: opened, kept, drained, and the features of all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import anyio

from agentrt.base.errors import EngineDied, EngineUnavailable, InternalError, UsageError
from agentrt.protocol.backend import Capabilities
from agentrt.remote.fleet.drain_list import DrainList
from agentrt.remote.fleet.fleet_model import FleetModel
from agentrt.remote.fleet.fleet_times import FleetTimes
from agentrt.remote.fleet.fleet_worker import FleetWorker
from agentrt.remote.fleet.kv_room import FleetKvRoom
from agentrt.remote.fleet.worker_keeper import WorkerKeeper
from agentrt.remote.several_engines import joint_capabilities
from agentrt.remote.task_ends import end_tasks

_log = logging.getLogger("agentrt")


class FleetMembers:
    """The workers of one fleet.

    Args:
        workers: The workers.
        times: Times of the fleet.
        drains: Servers that a user drains meanwhile, or None.
        opening_s: Time for the opening; None sets no limit.
        on_open: Called with each worker once it is open.
        on_change: Called when the health of a worker has changed; says whether it was restarted.
        on_hung: Called when a worker has hung, with the error of its requests.
    """

    def __init__(
        self,
        workers: Sequence[FleetWorker],
        times: FleetTimes,
        drains: DrainList | None,
        opening_s: float | None,
        on_open: Callable[[FleetWorker], None],
        on_change: Callable[[FleetWorker, bool], None],
        on_hung: Callable[[FleetWorker, EngineDied], None],
    ) -> None:
        self.workers = tuple(workers)
        self.by_name = {one.name: one for one in workers}
        self.kv_room = FleetKvRoom(self.workers)
        self._times = times
        self._drains = drains
        self._drained_here = {one.name for one in workers if one.is_drained}
        self._opening_s = opening_s
        self._on_open = on_open
        self._on_change = on_change
        self._on_hung = on_hung
        self._model = FleetModel(times.answer_s)
        self._tasks: list[asyncio.Task[None]] = []
        self._capabilities: Capabilities | None = None
        self._none_since_s: float | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Features of all workers that were open when the fleet was."""
        if self._capabilities is None:
            raise InternalError("capabilities are known once start() has returned")
        return self._capabilities

    async def start(self) -> None:
        """Open the workers; one that is open is enough, the others join when they are.

        Raises:
            EngineUnavailable: None could be opened.
            UsageError: A worker refuses the settings, or serves another model than the others.
        """
        if self._capabilities is not None:
            return
        await self.aclose_keepers()
        self.note_drains()
        keepers = [
            WorkerKeeper(
                one, self._times, self._check_model, self._fits, self._on_change, self._on_hung
            )
            for one in self.workers
        ]
        self._tasks = [asyncio.create_task(one.run()) for one in keepers]
        try:
            with anyio.move_on_after(self._opening_s):
                await self._first_open(keepers)
            self._check_settings()
        except BaseException:
            await self.aclose_keepers()
            raise
        every = [one.backend.capabilities for one in self.workers if one.is_open]
        windows = [one.window_tokens for one in every]
        self._capabilities = joint_capabilities(every, min(windows) if all(windows) else 0)

    async def aclose(self) -> None:
        """Close all workers; their requests end as cancelled."""
        await self.aclose_keepers()
        for worker in self.workers:
            await worker.backend.aclose()

    async def aclose_keepers(self) -> None:
        """Keep the workers no more."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)

    def note_drains(self) -> bool:
        """Look at what is drained now; whether that has changed."""
        listed = frozenset[str]() if self._drains is None else self._drains.urls()
        changed = False
        for worker in self.workers:
            is_drained = worker.name in self._drained_here or worker.name in listed
            changed |= is_drained != worker.is_drained
            worker.is_drained = is_drained
        return changed

    def none_since_s(self, now_s: float) -> float | None:
        """Instant since which no worker is in service; None if one is."""
        if any(one.in_service for one in self.workers):
            self._none_since_s = None
        elif self._none_since_s is None:
            self._none_since_s = now_s
        return self._none_since_s

    def error(self, name: str) -> EngineUnavailable:
        """The error of requests for which no worker is in service."""
        states = "; ".join(f"{one.name} is {one.state()}" for one in self.workers)
        return EngineUnavailable(
            f"no worker of {name} is in service: {states}",
            hint="Start one of them, or end its drain",
        )

    async def _first_open(self, keepers: Sequence[WorkerKeeper]) -> None:
        """Wait until all workers were tried, or for a moment behind the first that is open."""

        async def tried(keeper: WorkerKeeper) -> None:
            await keeper.tried.wait()
            if any(one.is_open for one in self.workers):
                await anyio.sleep(self._times.join_s)
                tasks.cancel_scope.cancel()

        async def all_tried() -> None:
            for keeper in keepers:
                await keeper.tried.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(all_tried)
            for keeper in keepers:
                tasks.start_soon(tried, keeper)

    async def _check_model(self, worker: FleetWorker) -> UsageError | None:
        """The error of a worker whose model is not that of the fleet."""
        error = await self._model.fault(worker)
        if error is not None and self._capabilities is not None:
            _log.warning("%s is left out of the fleet: %s; %s", worker.name, error, error.hint)
        return error

    def _check_settings(self) -> None:
        wrong = next((one.why for one in self.workers if isinstance(one.why, UsageError)), None)
        if wrong is not None:
            raise wrong
        if not any(one.is_open for one in self.workers):
            raise self.error("the fleet")

    def _fits(self, worker: FleetWorker) -> str:
        """Features that a worker lacks that the fleet has promised; "" if it may join."""
        if self._capabilities is not None:
            own, ours = worker.backend.capabilities, self._capabilities
            if own.window_tokens and own.window_tokens < ours.window_tokens:
                return f"{worker.name} has a context length of {own.window_tokens} tokens only"
            if own.prompt != ours.prompt:
                return f"{worker.name} takes other prompts"
            missing = [
                name
                for name in ("seeds", "closes", "cache_salts")
                if getattr(ours, name) and not getattr(own, name)
            ]
            if missing:
                return f"{worker.name} lacks {', '.join(missing)}, which the others have"
        self._on_open(worker)
        return ""
