"""The placer of a fleet: the map of prefixes and the account of work, kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, exp
from types import MappingProxyType

from agentrt.base.errors import InternalError
from agentrt.scheduler.placement.place import Placement, place
from agentrt.scheduler.placement.prefix_map import PrefixMap, SentPrefix
from agentrt.scheduler.placement.server_pace import ServerPace
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts, WorkerLoad

RECENT_S = 15.0
"""Time under full load in which the share of older work that counts as recent falls to 1/e."""

OWN_ANSWERS = 16
"""Answers of a worker from which on its own pace counts: few say more about themselves than about
it."""


@dataclass(slots=True, eq=False)
class _Run:
    """A run: the worker of its last request, and its learned work in flight by worker."""

    home: WorkerLoad
    in_flight_s: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _InFlight:
    """A request that a worker has, or that waits for it.

    Attributes:
        worker: The worker.
        run: Run of the request; None if it belongs to none.
        key: Prompt of the request.
        sent: The prompt in the map.
        prompt_tokens: Length of the prompt.
        lacking_tokens: Tokens of it that the worker was believed to lack.
        is_timed: Whether the pace of the worker counts it.
        prefill_s: Work of the prompt that is left, in seconds.
        output_s: Work of the output.
    """

    worker: WorkerLoad
    run: _Run | None
    key: bytes
    sent: SentPrefix
    prompt_tokens: float
    lacking_tokens: float
    is_timed: bool
    prefill_s: float
    output_s: float

    def count(self, work_s: float) -> None:
        """Add work to the accounts of the worker and of the run; less than 0 takes it off."""
        load, run = self.worker, self.run
        load.in_flight_s = max(0.0, load.in_flight_s + work_s)
        if run is not None:
            run.in_flight_s[load.name] = max(0.0, run.in_flight_s.get(load.name, 0.0) + work_s)


class Placer:
    """Places requests over workers. Deterministic: no clock, no I/O.

    Waits and the worth of a prefix are compared in real seconds, so the costs of tokens have to be
    those of the servers: they are learned, one pace a worker, if instants are handed in.

    Args:
        costs: Costs of tokens on a worker of weight 1, until answers have shown better ones.
        bytes_per_token: Bytes of a key that make a token: 4.0 for ids, the learned ratio for text.
        block_bytes: Bytes of a key that engines share at least.

    Example:
        >>> placer = Placer()
        >>> placer.add("a"), placer.add("b")
        (None, None)
        >>> first = PlacementRequest(b"x" * 4000, prompt_tokens=1000, output_tokens=100)
        >>> placer.send(1, first, "b")
        >>> placer.end(1)
        >>> placed = placer.place(PlacementRequest(b"x" * 4000 + b"y" * 400, prompt_tokens=1100))
        >>> placed.worker, placed.reason
        ('b', 'prefix')
    """

    def __init__(
        self,
        costs: TokenCosts | None = None,
        *,
        bytes_per_token: float = 4.0,
        block_bytes: int = 64,
    ) -> None:
        self.costs = costs or TokenCosts()
        self.prefixes = PrefixMap(bytes_per_token, block_bytes)
        self._workers: dict[str, WorkerLoad] = {}
        self._in_flight: dict[int, _InFlight] = {}
        self._runs: dict[str, _Run] = {}
        self._paces: dict[str, ServerPace] = {}

    @property
    def workers(self) -> Mapping[str, WorkerLoad]:
        """The workers; health, drain, room and weight of each are the caller's to set."""
        return MappingProxyType(self._workers)

    def add(self, worker: str, *, weight: float = 1.0, kv_tokens: float = 0.0) -> None:
        """Add a worker.

        Args:
            worker: Name of the worker.
            weight: Speed, as a multiple of that for which the costs of tokens hold.
            kv_tokens: Tokens that the KV cache holds; 0 if unknown.
        """
        if worker in self._workers:
            raise InternalError(f"worker {worker!r} is placed on already")
        self._workers[worker] = WorkerLoad(worker, weight)
        self._paces[worker] = ServerPace(self.costs)
        self.prefixes.add(worker, kv_tokens)

    def remove(self, worker: str) -> None:
        """Remove a worker; its requests in flight and the homes of its runs are forgotten."""
        self.prefixes.remove(worker)
        load = self._workers.pop(worker)
        del self._paces[worker]
        self._in_flight = {
            number: one for number, one in self._in_flight.items() if one.worker is not load
        }
        self._runs = {run_id: run for run_id, run in self._runs.items() if run.home is not load}
        for run in self._runs.values():
            run.in_flight_s.pop(worker, None)

    def set_kv(self, worker: str, kv_tokens: float) -> None:
        """Note the capacity of a worker's KV cache; 0 if unknown."""
        self.prefixes.add(worker, kv_tokens)

    def forget(self, worker: str) -> None:
        """Note that a worker holds no prefix any more: it was started again."""
        self.prefixes.forget(worker)

    def hold(self, worker: str, key: bytes) -> None:
        """Note that a worker holds a prefix, for a request of any client: a KV event."""
        self.prefixes.settle(self.prefixes.record(worker, key))

    def cut(self, worker: str, key: bytes, from_bytes: int = 0) -> None:
        """Note that a worker holds no more than the first bytes of a prefix: a KV event.

        Args:
            worker: Name of the worker.
            key: The prefix. What continues it is gone, too.
            from_bytes: Bytes of it that the worker still holds.
        """
        self.prefixes.cut(worker, key, from_bytes)

    def place(self, request: PlacementRequest) -> Placement | None:
        """The worker for a request; None if no worker may have it. Changes nothing."""
        run = self._runs.get(request.run_id)
        return place(
            request,
            self._workers.values(),
            self._matched_tokens(request),
            self.costs,
            None if run is None else run.in_flight_s,
            "" if run is None else run.home.name,
        )

    def send(
        self, request_id: int, request: PlacementRequest, worker: str, now_s: float | None = None
    ) -> None:
        """Note that a request goes to a worker, or waits for it.

        Args:
            request_id: The request.
            request: Facts of the request.
            worker: Name of the worker.
            now_s: The instant, if the worker's pace is to be learned from it.

        Raises:
            InternalError: The request is in flight already.
        """
        if request_id in self._in_flight:
            raise InternalError(f"request {request_id} has a worker already")
        load = self._workers[worker]
        matched = self._tokens_of(request, self.prefixes.match(request.key).get(worker, 0))
        sent = self.prefixes.record(worker, request.key)
        costs, lacking = load.costs or self.costs, request.prompt_tokens - matched
        prefill_s = costs.work_s(lacking, 0.0)
        output_s = costs.work_s(0.0, request.output_tokens)
        run = self._runs.setdefault(request.run_id, _Run(load)) if request.run_id else None
        if run is not None:
            run.home = load
        one = _InFlight(
            load,
            run,
            request.key,
            sent,
            request.prompt_tokens,
            lacking,
            is_timed=now_s is not None,
            prefill_s=prefill_s,
            output_s=output_s,
        )
        one.count(prefill_s + output_s)
        if now_s is not None:
            self._paces[worker].begin(now_s)
        self._in_flight[request_id] = one
        self._note_recent(load, prefill_s + output_s)

    def computed(self, request_id: int) -> None:
        """Note the first token of a request: its prompt is computed."""
        one = self._in_flight.get(request_id)
        if one is not None:
            one.count(-one.prefill_s)
            one.prefill_s = 0.0
            self.prefixes.settle(one.sent)

    def end(
        self,
        request_id: int,
        *,
        cached_share: float | None = None,
        slack_share: float = 0.0,
        output_key: bytes = b"",
        now_s: float | None = None,
        output_tokens: float | None = None,
    ) -> None:
        """Note the end of a request, whatever ended it; one that is not in flight is ignored.

        Args:
            request_id: The request.
            cached_share: Share of the tokens of its prompt that the engine found in its KV cache;
                None if it does not say. A share, since how many bytes make a token is unknown here.
            slack_share: Share of the prompt by which that may fall short though nothing was
                evicted: engines share whole blocks, and bytes are no exact measure of tokens.
            output_key: Bytes that the engine now holds behind the prompt.
            now_s: The instant; needed if it was given when the request was sent.
            output_tokens: Length of the output; None if the worker has not answered.
        """
        one = self._in_flight.pop(request_id, None)
        if one is None:
            return
        one.count(-one.prefill_s - one.output_s)
        if cached_share is not None:
            found = ceil(cached_share * len(one.key))
            self.prefixes.confirm(one.sent, found, ceil(slack_share * len(one.key)))
        self.prefixes.settle(one.sent)
        if output_key:
            self.prefixes.settle(self.prefixes.record(one.worker.name, one.key + output_key))
        if one.is_timed and now_s is not None:
            self._learn(one, now_s, cached_share, output_tokens)

    def _learn(
        self, one: _InFlight, now_s: float, cached_share: float | None, output_tokens: float | None
    ) -> None:
        """Learn the pace of a worker from the end of a request."""
        pace = self._paces[one.worker.name]
        if output_tokens is None:
            pace.fail(now_s)
            return
        lacking = one.lacking_tokens
        if cached_share is not None:
            lacking = one.prompt_tokens * (1.0 - cached_share)
        before = pace.costs
        pace.end(now_s, lacking, output_tokens)
        if pace.costs is not before:
            self._note_costs()

    def _note_costs(self) -> None:
        """Give each worker its costs; one with few answers is taken to be like all together."""
        loads = self._workers
        found = {
            name: (pace.answers, pace.costs.times(loads[name].weight))
            for name, pace in self._paces.items()
        }
        answers = sum(count for count, _ in found.values())
        usual = TokenCosts(
            sum(count * costs.prefill_s for count, costs in found.values()) / answers,
            sum(count * costs.decode_s for count, costs in found.values()) / answers,
        )
        for name, load in loads.items():
            count, own = found[name]
            before, load.costs = load.costs or self.costs, own if count >= OWN_ANSWERS else usual
            self._rescale(load, self._slowness(load.costs) / self._slowness(before))

    def _slowness(self, costs: TokenCosts) -> float:
        """Time of work that half prompts and half outputs make, by that of the first costs."""
        prefill = costs.prefill_s / self.costs.prefill_s
        decode = costs.decode_s / self.costs.decode_s
        return (prefill + decode) / 2

    def _rescale(self, load: WorkerLoad, factor: float) -> None:
        """Count all work of a worker, which other costs were counted by, by its new ones."""
        load.in_flight_s *= factor
        load.recent_s *= factor
        for one in self._in_flight.values():
            if one.worker is load:
                one.prefill_s *= factor
                one.output_s *= factor
        for run in self._runs.values():
            if load.name in run.in_flight_s:
                run.in_flight_s[load.name] *= factor

    def end_run(self, run_id: str) -> None:
        """Note that a run sends nothing more; one that has sent nothing is ignored."""
        self._runs.pop(run_id, None)

    def _note_recent(self, load: WorkerLoad, work_s: float) -> None:
        """Count work that is sent; what the fleet was sent before fades by it."""
        weights = sum(worker.weight for worker in self._workers.values())
        kept = exp(-work_s / (RECENT_S * weights))
        for worker in self._workers.values():
            worker.recent_s *= kept
        load.recent_s += work_s

    def _matched_tokens(self, request: PlacementRequest) -> dict[str, float]:
        matched = self.prefixes.match(request.key)
        return {name: self._tokens_of(request, found) for name, found in matched.items()}

    def _tokens_of(self, request: PlacementRequest, found_bytes: int) -> float:
        """Tokens of a part of a prompt: the same part of its tokens as of its bytes."""
        return request.prompt_tokens * found_bytes / max(1, len(request.key))
