"""The backend of a configured remote engine, with those that take its requests over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.clock import Clock
from agentrt.base.config import PolicyName
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.protocol.backend import Backend
from agentrt.protocol.priced_backend import PricedBackend
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_rates import pacer_of
from agentrt.remote.backend import RemoteBackend
from agentrt.remote.fallback_backend import FallbackBackend
from agentrt.remote.limits import RemoteLimits
from agentrt.remote.opening.capability_store import CapabilityStore
from agentrt.scheduler import Order, policy

OUTAGE_BEFORE_FALLBACK_S = 5.0
"""Time for which an engine with a fallback may be away; without one it is waited for longer."""


class RemoteEngines:
    """The remote engines of one runtime. One that plays several roles has one queue for them all.

    Args:
        clock: Clock of ledgers, deadlines and cooldowns.
        environment: Variables that name the store of capabilities.
        limits: Fields of `RemoteLimits` that differ from those of the settings.
        policy: Policy by which requests that are held back are ordered.
    """

    def __init__(
        self,
        clock: Clock,
        environment: Mapping[str, str],
        limits: Mapping[str, Any],
        policy: PolicyName = "fcfs",
    ) -> None:
        self._clock = clock
        self._store = CapabilityStore.of(environment)
        self._limits = limits
        self._policy = policy
        self._queues: dict[tuple[str, ...], AdmissionQueue] = {}

    def backend(self, engine: RemoteEngineConfig) -> Backend:
        """The engine as a backend.

        Raises:
            UsageError: A variable that the settings name is empty.
        """
        fallbacks = engine.fallbacks
        others = fallbacks.engines() if fallbacks is not None else []
        first = self._single(engine, has_fallback=any("down" in reasons for _, reasons in others))
        if fallbacks is None or not others:
            return first
        return FallbackBackend(
            first,
            [(self._single(one), reasons) for one, reasons in others],
            clock=self._clock,
            cooldown_s=fallbacks.cooldown_s,
        )

    def _single(self, engine: RemoteEngineConfig, *, has_fallback: bool = False) -> Backend:
        patience = {"outage_s": OUTAGE_BEFORE_FALLBACK_S} if has_fallback else {}
        limits = RemoteLimits(**{**patience, **engine.limits, **self._limits})
        identity = (engine.name, engine.url, engine.model, engine.key or "")
        queue = self._queues.get(identity)
        if queue is None:
            order = Order(policy(self._policy))
            queue = self._queues[identity] = AdmissionQueue(pacer_of(engine), order, self._clock)
        backend = RemoteBackend(
            engine, clock=self._clock, limits=limits, store=self._store, queue=queue
        )
        if engine.prices is None:
            return backend
        return PricedBackend(backend, engine.prices, self._clock)
