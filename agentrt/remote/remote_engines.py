"""The backend of a configured remote engine, with those that take its requests over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentrt.base.clock import Clock
from agentrt.base.config import PolicyName
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.protocol.backend import Backend, GenerateRequest
from agentrt.protocol.priced_backend import PricedBackend
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_rates import pacer_of
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.backend import RemoteBackend
from agentrt.remote.fallback_backend import FallbackBackend
from agentrt.remote.limits import RemoteLimits
from agentrt.remote.opening.capability_store import CapabilityStore
from agentrt.remote.retries import Retries
from agentrt.scheduler import Order, policy

if TYPE_CHECKING:
    from agentrt.remote.fleet.fleet_backend import FleetBackend
    from agentrt.remote.fleet.fleet_times import FleetTimes

OUTAGE_BEFORE_FALLBACK_S = 5.0
"""Time for which an engine with a fallback may be away; without one it is waited for longer."""


class RemoteEngines:
    """The remote engines of one runtime. One that plays several roles has one queue for them all.

    Args:
        clock: Clock of ledgers, deadlines and cooldowns.
        environment: Variables that name the store of capabilities.
        limits: Fields of `RemoteLimits` that differ from those of the settings.
        policy: Policy by which requests that are held back are ordered.
        times: Times after which a worker of a fleet counts as silent; None for the usual ones.
    """

    def __init__(
        self,
        clock: Clock,
        environment: Mapping[str, str],
        limits: Mapping[str, Any],
        policy: PolicyName = "fcfs",
        times: FleetTimes | None = None,
    ) -> None:
        self._clock = clock
        self._store = CapabilityStore.of(environment)
        self._limits = limits
        self._policy = policy
        self._times = times
        self._environment = environment
        self._queues: dict[tuple[str, ...], AdmissionQueue] = {}

    def backend(self, engine: RemoteEngineConfig) -> Backend:
        """The engine as a backend.

        Raises:
            UsageError: A variable that the settings name is empty.
        """
        fallbacks = engine.fallbacks
        others = fallbacks.engines() if fallbacks is not None else []
        first = self._alone(engine, has_fallback=any("down" in reasons for _, reasons in others))
        if fallbacks is None or not others:
            return first
        return FallbackBackend(
            first,
            [(self._alone(one), reasons) for one, reasons in others],
            clock=self._clock,
            cooldown_s=fallbacks.cooldown_s,
        )

    def _alone(self, engine: RemoteEngineConfig, *, has_fallback: bool = False) -> Backend:
        """The engine without those that take its requests over."""
        patience = {"outage_s": OUTAGE_BEFORE_FALLBACK_S} if has_fallback else {}
        limits = RemoteLimits(**{**patience, **engine.limits, **self._limits})
        if engine.is_fleet:
            return self._fleet(engine, limits)
        server = RemoteBackend(
            engine,
            clock=self._clock,
            limits=limits,
            store=self._store,
            queue=self._queue(engine),
        )
        return self._priced(server, engine)

    def _fleet(self, engine: RemoteEngineConfig, limits: RemoteLimits) -> FleetBackend:
        """The servers of a fleet, each with a queue of its own that it hardly needs."""
        # Imported here: most runs have one server, and their first request waits for imports.
        from agentrt.remote.fleet.drain_list import DrainList
        from agentrt.remote.fleet.fleet_backend import FleetBackend
        from agentrt.remote.fleet.fleet_times import DEFAULT_TIMES
        from agentrt.remote.fleet.fleet_worker import FleetWorker

        found: list[FleetBackend] = []

        def attempt(request: GenerateRequest, turn: RequestTurn) -> Retries:
            return found[0].attempt(request, turn)

        workers: list[FleetWorker] = []
        for member in engine.workers:
            one, queue = member.engine, self._queue(member.engine)
            server = RemoteBackend(
                one,
                clock=self._clock,
                limits=RemoteLimits(**{**one.limits, **self._limits}),
                store=self._store,
                queue=queue,
                retries=attempt,
            )
            backend = self._priced(server, one)
            worker = FleetWorker(one.url, member.weight, server, backend, queue.pacer)
            worker.is_drained = one.url in engine.drained_urls
            workers.append(worker)
        fleet = FleetBackend(
            engine.name or "the fleet",
            workers,
            Order(policy(self._policy)),
            clock=self._clock,
            limits=limits,
            drains=DrainList.of(self._environment),
            times=self._times or DEFAULT_TIMES,
        )
        found.append(fleet)
        for member in engine.workers:
            self._queue(member.engine).watchers.append(fleet.queue.reconsider)
        return fleet

    def _queue(self, engine: RemoteEngineConfig) -> AdmissionQueue:
        """The queue before one server."""
        identity = (engine.name, engine.url, engine.model, engine.key or "")
        queue = self._queues.get(identity)
        if queue is None:
            order = Order(policy(self._policy))
            queue = self._queues[identity] = AdmissionQueue(pacer_of(engine), order, self._clock)
        return queue

    def _priced(self, server: RemoteBackend, engine: RemoteEngineConfig) -> Backend:
        if engine.prices is None:
            return server
        return PricedBackend(server, engine.prices, self._clock)
