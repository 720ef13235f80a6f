"""The placer of a fleet: the map of prefixes and the account of work, kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agentrt.base.errors import InternalError
from agentrt.scheduler.placement.place import Placement, place
from agentrt.scheduler.placement.prefix_map import PrefixMap, SentPrefix
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts, WorkerLoad


@dataclass(slots=True, eq=False)
class _InFlight:
    """A request that a worker has, or that waits for it.

    Attributes:
        worker: The worker.
        key: Prompt of the request.
        sent: The prompt in the map.
        prefill_s: Work of the prompt that is left, in seconds.
        output_s: Work of the output.
    """

    worker: WorkerLoad
    key: bytes
    sent: SentPrefix
    prefill_s: float
    output_s: float


@dataclass(slots=True, eq=False)
class _Resident:
    """A run, the worker of its last request, and the work that it is yet to send."""

    worker: WorkerLoad
    rest_s: float


class Placer:
    """Places requests over workers. Deterministic: no clock, no I/O.

    Args:
        costs: Costs of tokens on a worker of weight 1.
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
        self._runs: dict[str, _Resident] = {}

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
        self.prefixes.add(worker, kv_tokens)

    def remove(self, worker: str) -> None:
        """Remove a worker, with its requests in flight and its runs."""
        self.prefixes.remove(worker)
        load = self._workers.pop(worker)
        self._in_flight = {
            number: one for number, one in self._in_flight.items() if one.worker is not load
        }
        self._runs = {run_id: run for run_id, run in self._runs.items() if run.worker is not load}

    def set_kv(self, worker: str, kv_tokens: float) -> None:
        """Note the capacity of a worker's KV cache; 0 if unknown."""
        self.prefixes.add(worker, kv_tokens)

    def forget(self, worker: str) -> None:
        """Note that a worker holds no prefix any more: it was started again."""
        self.prefixes.forget(worker)

    def place(self, request: PlacementRequest) -> Placement | None:
        """The worker for a request; None if no worker may have it. Changes nothing."""
        resident = self._runs.get(request.run_id)
        return place(
            request,
            self._workers.values(),
            self._matched_tokens(request),
            self.costs,
            "" if resident is None else resident.worker.name,
            0.0 if resident is None else resident.rest_s,
        )

    def send(self, request_id: int, request: PlacementRequest, worker: str) -> None:
        """Note that a request goes to a worker, or waits for it.

        Raises:
            InternalError: The request is in flight already.
        """
        if request_id in self._in_flight:
            raise InternalError(f"request {request_id} has a worker already")
        load = self._workers[worker]
        matched = self._tokens_of(request, self.prefixes.match(request.key).get(worker, 0))
        sent = self.prefixes.record(worker, request.key)
        prefill_s = self.costs.work_s(request.prompt_tokens - matched, 0.0)
        output_s = self.costs.work_s(0.0, request.output_tokens)
        load.in_flight_s += prefill_s + output_s
        load.sent_s += prefill_s + output_s
        self._in_flight[request_id] = _InFlight(load, request.key, sent, prefill_s, output_s)
        if request.run_id:
            self.end_run(request.run_id)
            rest_s = max(0.0, request.rest_s - prefill_s - output_s)
            load.resident_s += rest_s
            self._runs[request.run_id] = _Resident(load, rest_s)

    def computed(self, request_id: int) -> None:
        """Note the first token of a request: its prompt is computed."""
        one = self._in_flight.get(request_id)
        if one is not None:
            one.worker.in_flight_s -= one.prefill_s
            one.prefill_s = 0.0
            self.prefixes.settle(one.sent)

    def end(
        self, request_id: int, *, cached_tokens: float | None = None, output_key: bytes = b""
    ) -> None:
        """Note the end of a request, whatever ended it; one that is not in flight is ignored.

        Args:
            request_id: The request.
            cached_tokens: Tokens of its prompt that the engine found in its KV cache; None if it
                does not say.
            output_key: Bytes that the engine now holds behind the prompt.
        """
        one = self._in_flight.pop(request_id, None)
        if one is None:
            return
        one.worker.in_flight_s = max(0.0, one.worker.in_flight_s - one.prefill_s - one.output_s)
        if cached_tokens is not None:
            cached_bytes = int(cached_tokens * self.prefixes.bytes_per_token)
            self.prefixes.confirm(one.sent, cached_bytes)
        self.prefixes.settle(one.sent)
        if output_key:
            self.prefixes.settle(self.prefixes.record(one.worker.name, one.key + output_key))

    def end_run(self, run_id: str) -> None:
        """Note that a run sends nothing more; one that has sent nothing is ignored."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            run.worker.resident_s = max(0.0, run.worker.resident_s - run.rest_s)

    def _matched_tokens(self, request: PlacementRequest) -> dict[str, float]:
        matched = self.prefixes.match(request.key)
        return {name: self._tokens_of(request, found) for name, found in matched.items()}

    def _tokens_of(self, request: PlacementRequest, found_bytes: int) -> float:
        """Tokens of a part of a prompt: the same part of its tokens as of its bytes."""
        return request.prompt_tokens * found_bytes / max(1, len(request.key))
