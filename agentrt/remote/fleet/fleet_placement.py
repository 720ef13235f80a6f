"""Choosing the worker of a request: what is known here in the terms of the placer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentrt.base.canonical_json import dumps
from agentrt.base.ids import RequestId
from agentrt.program.messages import messages_of
from agentrt.program.prompt_size import likely_prompt_tokens
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import End, Ledger
from agentrt.remote.fleet.fleet_route import FleetRoute
from agentrt.remote.fleet.fleet_worker import FleetWorker
from agentrt.remote.warming.rendered_prefix import known_segments
from agentrt.scheduler.placement.held_blocks import PrefixChange, id_key
from agentrt.scheduler.placement.place import Placement
from agentrt.scheduler.placement.placer import Placer
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts

MOST_BLOCK_TOKENS = 128
"""Largest block of an engine: the first reports of a server may have a larger divisor."""

TEMPLATE_SHARE = 0.1
"""Share of a prompt of messages by which its tokens and its bytes may be spread differently."""


class FleetPlacement:
    """The placer over the workers of one fleet.

    Args:
        workers: The workers.
        gap_s: Time without a request after which a run is taken to send none any more.
    """

    def __init__(self, workers: Sequence[FleetWorker], gap_s: float) -> None:
        self._workers = workers
        self._gap_s = gap_s
        self._placer = Placer()
        self._runs: dict[str, float] = {}
        self._block_tokens: dict[str, int] = {}
        self._warm_ups: dict[RequestId, tuple[str, bytes, int]] = {}
        for worker in workers:
            self._placer.add(worker.name, weight=worker.weight)

    def choose(self, route: FleetRoute, now_s: float) -> Placement | None:
        """The worker for a request; None if none is in service.

        A worker that has just failed it is chosen only if there is no other.
        """
        self._note_loads()
        request = _facts(route, now_s)
        placed = self._placer.place(request)
        if placed is None and route.excluded:
            route.excluded = frozenset()
            placed = self._placer.place(_facts(route, now_s))
        return placed

    def send(self, route: FleetRoute, worker: FleetWorker, now_s: float) -> None:
        """Note that a request goes to a worker."""
        self._placer.send(route.request.request_id, _facts(route, now_s), worker.name, now_s)

    def note_output(self, route: FleetRoute) -> None:
        """Note the first output of a request: its prompt is computed."""
        self._placer.computed(route.request.request_id)

    def end(self, route: FleetRoute, worker: FleetWorker, end: End, now_s: float) -> None:
        """Note the end of a request at its worker, whatever ended it."""
        ledger = end.ledger
        answered = end.reason in ("stop", "length")
        if answered and ledger.prompt_tokens > 0:
            share = ledger.cached_tokens / ledger.prompt_tokens
            slack_tokens = self._slack_tokens(route, worker, ledger)
            slack_share = slack_tokens / ledger.prompt_tokens
        else:
            share, slack_share = None, 0.0
        self._placer.end(
            route.request.request_id,
            cached_share=share,
            slack_share=slack_share,
            now_s=now_s,
            output_tokens=float(ledger.output_tokens) if answered else None,
        )
        self._runs[route.request.run_id] = now_s

    def begin_warm_up(self, request: GenerateRequest, now_s: float) -> str | None:
        """The worker for a warm-up, which is taken to hold the prefix now; None if it has to wait.

        Args:
            request: The warm-up.
            now_s: Now.
        """
        self._note_loads()
        key, prompt_tokens = _prompt(request)
        others = frozenset(one.name for one in self._workers if not one.warms)
        facts = PlacementRequest(key, prompt_tokens, run_id=request.run_id, excluded=others)
        placed = self._placer.place(facts)
        if placed is None or placed.waits:
            return None
        held_bytes = self._placer.prefixes.match(key).get(placed.worker, 0)
        self._warm_ups[request.request_id] = (placed.worker, key, held_bytes)
        self._placer.send(request.request_id, facts, placed.worker)
        self._runs[request.run_id] = now_s
        return placed.worker

    def end_warm_up(self, end: End) -> None:
        """Note the end of a warm-up. One that was broken off has computed a part of the prefix."""
        worker, key, held_bytes = self._warm_ups.pop(end.request_id)
        self._placer.end(end.request_id)
        if end.reason == "failed":
            self._placer.cut(worker, key, held_bytes)

    def costs_of(self, worker: FleetWorker) -> TokenCosts:
        """Costs of tokens at a worker, as far as answers have shown them."""
        return self._placer.workers[worker.name].costs or self._placer.costs

    def note_restart(self, worker: FleetWorker) -> None:
        """Note that a worker was away, and holds no prefix any more."""
        self._placer.forget(worker.name)

    def note_blocks(self, worker: str, changes: Sequence[PrefixChange]) -> None:
        """Note what KV events say about a worker.

        Args:
            worker: Name of the worker.
            changes: Changes of what it holds, in order.
        """
        for one in changes:
            if one.what == "held":
                self._placer.hold(worker, one.key)
            elif one.what == "cut":
                self._placer.cut(worker, one.key, one.from_bytes)
            else:
                self._placer.forget(worker)

    def note_kv(self, worker: FleetWorker) -> None:
        """Note the KV memory of a worker."""
        self._placer.set_kv(worker.name, worker.kv_tokens)

    def forget_runs(self, now_s: float, live: set[str]) -> None:
        """End the runs that have sent nothing for a time.

        Args:
            now_s: Now.
            live: Runs with a request under way.
        """
        over = [
            run_id
            for run_id, at_s in self._runs.items()
            if now_s - at_s > self._gap_s and run_id not in live
        ]
        for run_id in over:
            del self._runs[run_id]
            self._placer.end_run(run_id)

    def _slack_tokens(self, route: FleetRoute, worker: FleetWorker, ledger: Ledger) -> float:
        """Tokens by which a report of cached tokens may fall short of what a worker holds.

        Engines share whole blocks, whose size all of their reports are multiples of. Of a prompt
        of messages the template is unknown: its share of the tokens is not that of the bytes.
        """
        before = self._block_tokens.get(worker.name, 0)
        block = self._block_tokens[worker.name] = math.gcd(before, ledger.cached_tokens)
        template = 0.0
        if not isinstance(route.request.prompt, TokenPrompt):
            template = TEMPLATE_SHARE * ledger.prompt_tokens
        return min(block, MOST_BLOCK_TOKENS) + template

    def _note_loads(self) -> None:
        for worker in self._workers:
            load = self._placer.workers[worker.name]
            load.healthy, load.draining = worker.health == "up", worker.is_drained
            load.room = worker.room


def _facts(route: FleetRoute, now_s: float) -> PlacementRequest:
    """A request as placement sees it."""
    request, info = route.request, route.request.info
    if not route.key:
        route.key, route.prompt_tokens = _prompt(request)
    return PlacementRequest(
        key=route.key,
        prompt_tokens=route.prompt_tokens,
        output_tokens=0.0 if info is None else info.output_tokens,
        run_id=request.run_id,
        waited_s=max(0.0, now_s - route.waits_since_s),
        excluded=route.excluded,
    )


def _prompt(request: GenerateRequest) -> tuple[bytes, float]:
    """The prompt as bytes, of which longer prompts have the same beginning, and its tokens."""
    prompt = request.prompt
    if isinstance(prompt, TokenPrompt):
        return id_key(prompt.token_ids, request.cache_salt), float(len(prompt.token_ids))
    salt = request.cache_salt.encode("utf-8", "surrogatepass")
    tools = "".join(map(repr, prompt.tools)).encode("utf-8", "surrogatepass")
    segments = prompt.segments if prompt.complete else known_segments(prompt.segments)
    text = dumps(messages_of(segments)).encode("utf-8", "surrogatepass")
    size_bytes = len(tools) + len(text)
    # The end of the list is where a longer prompt goes on.
    return salt + tools + text.removesuffix(b"]"), math.ceil(likely_prompt_tokens(size_bytes))
