"""The backend of a configured remote engine, with those that take its requests over."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.base.clock import Clock
from agentrt.base.config import PolicyName
from agentrt.base.engines.kv_events import KvEvents
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
    from agentrt.prompt import Codec
    from agentrt.remote.fleet.fleet_backend import FleetBackend
    from agentrt.remote.fleet.fleet_times import FleetTimes
    from agentrt.remote.fleet.kv_feeds import KvFeeds

_log = logging.getLogger("agentrt")

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
        self._codecs: dict[str, Codec] = {}
        self._told: set[str] = set()
        self._queues: dict[tuple[str, ...], AdmissionQueue] = {}

    def backend(self, engine: RemoteEngineConfig) -> Backend:
        """The engine as a backend.

        Raises:
            UsageError: A variable that the settings name is empty.
        """
        found, codec = self._with_fallbacks(engine), self.codec(engine)
        kinds = [one.warming(has_ids=codec is not None) for one in _servers(engine)]
        blocks = [kind.block_tokens for kind in kinds if kind is not None]
        if not engine.warm_ahead or not blocks:
            return found
        from agentrt.remote.warming.warming_backend import WarmingBackend  # many have no holes

        return WarmingBackend(found, self._clock, max(blocks))

    def _with_fallbacks(self, engine: RemoteEngineConfig) -> Backend:
        fallbacks, codec = engine.fallbacks, self.codec(engine)
        others = fallbacks.engines() if fallbacks is not None else []
        has_fallback = any("down" in reasons for _, reasons in others)
        first = self._alone(engine, codec, has_fallback=has_fallback)
        if fallbacks is None or not others:
            return first
        return FallbackBackend(
            first,
            [(self._alone(one, codec), reasons) for one, reasons in others],
            clock=self._clock,
            cooldown_s=fallbacks.cooldown_s,
        )

    def codec(self, engine: RemoteEngineConfig) -> Codec | None:
        """The codec of an engine that is sent token ids, its fallbacks included; else None.

        Raises:
            ModelInvalid: The directory that it names as its tokenizer cannot be read.
            NotInstalled: The packages of a codec are missing.
        """
        others = engine.fallbacks.engines() if engine.fallbacks is not None else ()
        servers = _servers(engine) + [one for other, _ in others for one in _servers(other)]
        first = next((self._codec_at(one.tokenizer) for one in servers if one.tokenizer), None)
        if first is None:
            return None
        for one in servers:
            if not one.tokenizer or self._codec_at(one.tokenizer).fingerprint != first.fingerprint:
                self._say_messages(engine.name or engine.url, one.name or one.url)
                return None
        return first

    def _say_messages(self, engine: str, lacking: str) -> None:
        """Say once that the tokenizers in the settings of an engine are not used."""
        if engine not in self._told:
            self._told.add(engine)
            _log.warning(
                "prompts of %s are sent as messages: %s has no tokenizer, or another one",
                engine,
                lacking,
            )

    def _codec_at(self, tokenizer: str) -> Codec:
        if tokenizer not in self._codecs:
            self._codecs[tokenizer] = codec_at(tokenizer)
        return self._codecs[tokenizer]

    def _alone(
        self, engine: RemoteEngineConfig, codec: Codec | None, *, has_fallback: bool = False
    ) -> Backend:
        """The engine without those that take its requests over."""
        patience = {"outage_s": OUTAGE_BEFORE_FALLBACK_S} if has_fallback else {}
        limits = RemoteLimits(**{**patience, **engine.limits, **self._limits})
        if engine.is_fleet:
            return self._fleet(engine, codec, limits)
        server = RemoteBackend(
            engine,
            clock=self._clock,
            limits=limits,
            store=self._store,
            queue=self._queue(engine),
            codec=codec,
        )
        return self._priced(server, engine)

    def _fleet(
        self, engine: RemoteEngineConfig, codec: Codec | None, limits: RemoteLimits
    ) -> FleetBackend:
        """The servers of a fleet, each with a queue of its own that it hardly needs."""
        # Imported here: most runs have one server, and their first request waits for imports.
        from agentrt.remote.fleet.drain_list import DrainList
        from agentrt.remote.fleet.fleet_backend import FleetBackend
        from agentrt.remote.fleet.fleet_times import DEFAULT_TIMES
        from agentrt.remote.fleet.fleet_worker import FleetWorker

        found: list[FleetBackend] = []
        sources = {
            one.engine.url: one.engine.kv_events.at(one.engine.url)
            for one in engine.workers
            if one.engine.kv_events is not None
        }

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
                codec=codec,
            )
            backend = self._priced(server, one)
            worker = FleetWorker(one.url, member.weight, server, backend, queue.pacer, one.model)
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
            feeds=_feeds(sources, has_ids=codec is not None),
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


def codec_at(tokenizer: str) -> Codec:
    """The codec of the directory that an engine's settings name as its tokenizer.

    Raises:
        ModelInvalid: The directory cannot be read.
        NotInstalled: The packages of a codec are missing.
    """
    from agentrt.prompt import Codec

    return Codec.load(Path(tokenizer).expanduser())


def _feeds(sources: Mapping[str, KvEvents], *, has_ids: bool) -> KvFeeds | None:
    """The KV events of a fleet; None if no server publishes any.

    Raises:
        NotInstalled: ZeroMQ is not installed.
    """
    if not sources:
        return None
    from agentrt.remote.fleet.kv_feeds import KvFeeds

    return KvFeeds(sources, has_ids=has_ids)


def _servers(engine: RemoteEngineConfig) -> list[RemoteEngineConfig]:
    """Settings of each server of an engine: of its workers, if it is a fleet."""
    return [one.engine for one in engine.workers] if engine.is_fleet else [engine]
