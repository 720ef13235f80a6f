"""Look-ups of generations in the response cache, before anything is reserved or sent for them.

A look-up is a task of its node, so that it ends with the node or at its deadline. An answer that
another process computes is waited for. Equal generations of this process share one lease; they are
sent, and join the first one in flight.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import anyio

from agentrt.program import Gen, Node
from agentrt.program.node import when_done
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import PromptRevised, Scheduled
from agentrt.protocol.step_output import End
from agentrt.runtime.completion import carry_out
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.in_flight.response_lookup import ResponseLookup
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.run import Run
from agentrt.runtime.task import Task
from agentrt.scheduler import InternalEvent

if TYPE_CHECKING:
    from agentrt.runtime.response_cache.cache import ResponseCache

POLL_S = 0.02
MAX_POLL_S = 0.5
"""Pauses between looks for the answer of another process: the first one, and the longest."""


@dataclass(slots=True, eq=False)
class Flight:
    """An answer that this process computes, under a lease.

    Attributes:
        lookups: Look-ups of the nodes that need it.
    """

    lookups: set[ResponseLookup] = field(default_factory=set)


class ResponseLookups:
    """Looks generations up, and keeps their answers.

    Args:
        post: Leaves an event for the loop.
        cache: The response cache; None if there is none.

    Attributes:
        default_roles: Roles with generations that are looked up unless they say otherwise.
    """

    def __init__(self, post: Callable[[InternalEvent], None], cache: ResponseCache | None) -> None:
        self._post = post
        self._cache = cache
        self.default_roles = frozenset[str]() if cache is None else cache.default_roles
        self._lookups: dict[Gen[Any], ResponseLookup] = {}
        self._flights: dict[str, Flight] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._timer: asyncio.TimerHandle | None = None

    def takes_role(self, role: str) -> bool:
        """Whether answers of the engine of a role are kept."""
        return self._cache is not None and role in self._cache.engines

    def look_up(
        self, run: Run, gen: Gen[Any], engine: ModelRole, request: GenerateRequest
    ) -> ResponseLookup:
        """The look-up of a generation with a complete prompt; its node is sent again at its end.

        Attempts after the first belong to the look-up of the first.
        """
        known = self._lookups.get(gen)
        if known is not None and (gen.attempts or not known.is_done):
            return known
        assert self._cache is not None
        from agentrt.runtime.response_cache.key import response_key

        takes = engine.capabilities
        key = response_key(
            request,
            engine=self._cache.engines[engine.role],
            model=takes.model,
            codec=takes.codec,
            tenant=run.options.tenant,
        )
        if known is not None:
            if known.key == key:
                return known
            self._leave(known)  # its prompt was made shorter meanwhile
        else:
            when_done(gen, self._forget)
        lookup = self._lookups[gen] = ResponseLookup(key, run.now_s())
        if flight := self._flights.get(key):
            flight.lookups.add(lookup)
            lookup.end(run.now_s())
            return lookup
        task = run.tasks[gen.id] = Task()
        body = partial(self._find, run, lookup)
        looking = carry_out(run, gen, task, body, partial(_revised, run, gen), self._post)
        run.task_set.start(looking, f"{gen.id} response cache", contextvars.copy_context())
        return lookup

    def keep(self, request: InFlight, end: End) -> None:
        """Keep the answer of a node that has passed all checks.

        Outputs that a limit has ended or closed are none, and those of a fallback are answers of
        another engine than the key says.
        """
        lookup = request.lookup
        if lookup is None or lookup.key not in self._flights:
            return
        if end.reason != "stop" or end.closed_early or end.by_fallback:
            return
        if lookup not in self._flights[lookup.key].lookups:
            return
        assert self._cache is not None
        from agentrt.runtime.in_flight.cached_answer import CachedAnswer

        ledger, gen = end.ledger, request.gen
        is_apart = request.reasoning is None
        answer = CachedAnswer(
            request.raw_text,
            "".join(gen.written.reasoning) if is_apart else "",
            tuple(request.output_ids),
            tuple(request.logprobs),
            end.stopped_by,
            end.scores,
            end.not_sent,
            ledger.prompt_tokens,
            ledger.output_tokens,
            ledger.thinking_tokens,
            ledger.cost_pico,
            ledger.currency,
            max(0.0, ledger.finished_at_s - ledger.received_at_s),
        )
        self._cache.put(lookup.key, answer)
        del self._flights[lookup.key]  # later nodes find the answer in the store

    def reject(self, lookup: ResponseLookup) -> None:
        """Drop an answer that the type of the output does not accept any more."""
        assert self._cache is not None
        self._cache.remove(lookup.key)
        lookup.answer = None
        self._flights.setdefault(lookup.key, Flight()).lookups.add(lookup)

    async def _find(self, run: Run, lookup: ResponseLookup) -> None:
        """Look a key up; one node looks, and others with the same key wait for it."""
        assert self._cache is not None
        pause_s = POLL_S
        async with self._locks.setdefault(lookup.key, asyncio.Lock()):
            while lookup.key not in self._flights:
                found = await self._cache.find(lookup.key)
                if found.is_leased:
                    self._flights[lookup.key] = Flight()
                    if self._timer is None:
                        self._set_timer()
                elif found.answer is not None or found.is_off:
                    lookup.answer = found.answer
                    break
                else:
                    await anyio.sleep(pause_s)
                    pause_s = min(2 * pause_s, MAX_POLL_S)
            else:
                self._flights[lookup.key].lookups.add(lookup)
        lookup.end(run.now_s())

    def _set_timer(self) -> None:
        from agentrt.runtime.response_cache.cache import LEASE_S

        self._timer = asyncio.get_running_loop().call_later(LEASE_S / 3, self._renew)

    def _renew(self) -> None:
        self._timer = None
        if self._flights:
            assert self._cache is not None
            self._cache.renew(tuple(self._flights))
            self._set_timer()

    def _leave(self, lookup: ResponseLookup) -> None:
        """Drop a node's part in an answer; the last one ends the lease."""
        flight = self._flights.get(lookup.key)
        if flight is None or lookup not in flight.lookups:
            return
        flight.lookups.discard(lookup)
        if not flight.lookups:
            assert self._cache is not None
            del self._flights[lookup.key]
            self._cache.release(lookup.key)

    def _forget(self, node: Node[Any]) -> None:
        assert isinstance(node, Gen)
        lookup = self._lookups.pop(node, None)
        if lookup is not None:
            self._leave(lookup)


def lookup_event(request: InFlight, lookup: ResponseLookup) -> Scheduled:
    """The event of a look-up that has ended."""
    run_id, node_id = request.run.run_id, request.gen.id
    at_s, terms = request.run.now_s(), (("looked_s", lookup.looked_s),)
    answer = lookup.answer
    if answer is None:
        reason = "no equal request was answered before"
        return Scheduled(run_id, node_id, at_s, "missed", reason, terms=terms)
    saved = (
        ("saved_prompt_tokens", float(answer.prompt_tokens)),
        ("saved_output_tokens", float(answer.output_tokens)),
        ("saved_s", answer.service_s),
    )
    reason = "an equal request was answered before"
    return Scheduled(run_id, node_id, at_s, "cached", reason, terms=(*terms, *saved))


def _revised(run: Run, gen: Gen[Any], _: None) -> PromptRevised:
    return PromptRevised(run.run_id, gen.id, (), run.now_s())
