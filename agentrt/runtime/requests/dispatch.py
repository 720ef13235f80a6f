"""Dispatch of generations: encoded, sent to an engine, filled, coalesced, stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.config import SchedulerConfig
from agentrt.base.errors import ContextOverflow, LimitExceeded
from agentrt.base.ids import RequestId
from agentrt.program import Gen, Node
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.backend import HoleFill, SchedulingInfo
from agentrt.protocol.events import Event, HoleFilled, PromptRevised, Scheduled
from agentrt.runtime.completion import failed
from agentrt.runtime.in_flight.coalescing import CoalescedRequest, Coalescing
from agentrt.runtime.in_flight.cost_reservation import CostReservation
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.in_flight.response_lookup import ResponseLookup
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.requests.cost_gate import CostGate
from agentrt.runtime.requests.engine_request import (
    engine_request,
    extends,
    sent_event,
    traceparent_of,
)
from agentrt.runtime.requests.overflow import ContextWindows
from agentrt.runtime.requests.prompt_revision import PromptRevisions
from agentrt.runtime.requests.prompts import (
    LargePrompt,
    Prompt,
    may_shrink,
    prompt_of,
)
from agentrt.runtime.requests.recovery import RequestRecovery
from agentrt.runtime.requests.response_lookups import ResponseLookups, lookup_event
from agentrt.runtime.requests.streamed_fills import StreamedFills
from agentrt.runtime.run import Run

STOP_GRACE_S = 0.3
"""Seconds in which an engine may end a request that it was told to end, with its own figures."""


class RequestDispatcher:
    """Hands generations to engines, and knows which requests are in flight.

    Attributes:
        in_flight: Requests by the id that their engine knows; several if they are coalesced, the
            one that was sent first.
        cached: Requests with an answer of the response cache; their nodes end now.
        responses: Look-ups in the response cache.
        departed: Requests that left a coalesced one, which goes on; their nodes end now.
        recovery: Submits requests again if their engine was lost.
        costs: Money for requests under a limit of cost.
        fills: Prompts that grow with the text of generations.
        stopping: Requests that their engine was told to end, each with the instant at which its
            node waits no longer; the soonest first.
    """

    def __init__(
        self,
        engines: Mapping[str, ModelRole],
        revisions: PromptRevisions,
        windows: ContextWindows,
        retention: KvRetention,
        config: SchedulerConfig,
        costs: CostGate,
        responses: ResponseLookups,
    ) -> None:
        self._engines = engines
        self._revisions = revisions
        self._windows = windows
        self._coalescing = Coalescing(is_on=config.share_nodes)
        self._retention = retention
        self.fills = StreamedFills(is_on=config.stream_fills)
        self.in_flight: dict[RequestId, list[InFlight]] = {}
        self.departed: list[InFlight] = []
        self.cached: list[InFlight] = []
        self.responses = responses
        self.recovery = RequestRecovery(self.in_flight)
        self.costs = costs
        self.stopping: dict[InFlight, float] = {}
        self._by_node: dict[tuple[str, str], InFlight] = {}
        self._by_request: dict[RequestId, InFlight] = {}

    def request_of(self, run: Run, gen: Gen[Any]) -> InFlight | None:
        """The request of a generation, or None if it has none in flight."""
        return self._by_node.get((run.run_id, gen.id))

    def forget(self, request: InFlight) -> None:
        """Drop a request that has ended, or that goes on without this node."""
        self.stopping.pop(request, None)
        self._by_node.pop((request.run.run_id, request.gen.id), None)
        self._by_request.pop(request.request_id, None)
        engine_id = request.engine_id
        requests = self.in_flight.get(engine_id, [])
        if request in requests:
            requests.remove(request)
            if not requests:
                del self.in_flight[engine_id]
                if self.recovery.deaths_alone or self.recovery.replays:
                    self.recovery.forget(engine_id)
        if request.coalesced is not None:
            self._coalescing.leave(request.coalesced, request.request_id)

    def send(
        self, run: Run, gen: Gen[Any], info: SchedulingInfo, held_s: float = 0.0
    ) -> list[Event]:
        """Hand a generation to its engine, with holes if the engine takes them.

        Args:
            run: The run of the node.
            gen: The node.
            info: Scheduling info of the request, its id included.
            held_s: How long admission control has held it, in seconds.
        """
        engine, chat = self._engines[gen.work.model], gen.work.chat
        try:
            is_late = gen.work.output.late is not None
            options_awaited = is_late and self._revisions.large_options.is_awaited(run, gen)
            prompt = prompt_of(run, gen, engine, self._windows, self.fills)
        except LargePrompt as large:
            self._revisions.large_prompts.begin(run, gen, engine, large)
            return []
        except ContextOverflow as overflow:
            if may_shrink(chat):
                run.deferred.add(gen.id)
                return []
            revised = self._revisions.begin(run, gen, engine, overflow)
            return [] if revised else [failed(run, gen, overflow)]
        except Exception as error:  # an input failed, or the prompt cannot be written
            return [failed(run, gen, error)]
        complete = prompt.complete
        if options_awaited and complete:
            run.deferred.add(gen.id)
            return []
        is_crowded = prompt.crowded and not may_shrink(chat)
        if is_crowded and self._revisions.begin(run, gen, engine, None):
            return []
        lookup: ResponseLookup | None = None
        is_remote = run.spans.are_told and engine.backend.capabilities.backend == "remote"
        adapter = engine.adapter
        sent = engine_request(run, gen, prompt, info, adapter=adapter, is_remote=is_remote)
        wanted = gen.work.cache
        if wanted is None:
            wanted = engine.role in self.responses.default_roles
        if wanted and self.responses.takes_role(engine.role):
            if not complete:
                run.deferred.add(gen.id)
                return []
            lookup = self.responses.look_up(run, gen, engine, sent)
            if not lookup.is_done:
                return []
        is_found = lookup is not None and lookup.answer is not None
        held: CostReservation | None = None
        if gen.scope.cost_budgets and not is_found:
            try:
                held = self.costs.reserve_call(run, gen, engine.capabilities, prompt)
            except LimitExceeded as error:
                return [failed(run, gen, error)]
            if held is None:
                return []
        request = InFlight(run, gen, engine, info.request_id)
        request.prompt_ids, request.prompt_complete = prompt.token_ids, complete
        request.reservation, request.sent, request.lookup = held, sent, lookup
        if is_found:
            assert lookup is not None
            self.cached.append(request)
            return [lookup_event(request, lookup)]
        run.has_sent = True
        if prompt.source is not None:
            self._follow(request, prompt.source)
        self._by_node[run.run_id, gen.id] = self._by_request[info.request_id] = request
        events = list(prompt.losses)
        if complete and gen.id in run.declared_with_holes:
            events.append(HoleFilled(run.run_id, gen.id, sent.submitted_at_s))
        if lookup is not None and not gen.attempts:
            events.append(lookup_event(request, lookup))
        events.append(sent_event(request, sent, held_s))
        if self._retention.is_on and not gen.attempts:  # a retry is not continued
            self._retention.note_prompt(request)
        if joined := self._join_like(request):
            return [*events, joined]
        self.in_flight[info.request_id] = [request]
        recovery = self.recovery
        if not (recovery.quarantines and recovery.holds(engine.role, info.request_id)):
            engine.backend.submit(sent)
        return events

    def fill_prompt(self, run: Run, gen: Gen[Any]) -> list[Event]:
        """Bring a prompt up to date; the node ends if one of its inputs has failed."""
        request = self.request_of(run, gen)
        if request is None:
            return self._check_unsent(run, gen)
        if request.prompt_complete or request.stop_error is not None:
            return []
        try:
            if gen.work.output.late is not None:
                self._revisions.large_options.is_awaited(run, gen)
            prompt = prompt_of(run, gen, request.engine, self._windows, self.fills)
            continues = extends(prompt, request)
        except LargePrompt as large:
            self._take_back(request, "its prompt is large")
            self._revisions.large_prompts.begin(run, gen, request.engine, large)
            return []
        except ContextOverflow as overflow:
            if may_shrink(gen.prompt):
                self._take_back(request, "its prompt is too long")
                run.deferred.add(gen.id)
            elif not self._revise(request, overflow):
                self.stop(request, overflow, "its prompt does not fit")
            return []
        except Exception as error:
            self.stop(request, error, "an input of it failed")
            return []
        if prompt.crowded and not may_shrink(gen.prompt) and self._revise(request, None):
            return []
        if not continues:  # a prompt that it continues was made shorter
            self._take_back(request, "its prompt has changed")
            return [PromptRevised(run.run_id, gen.id, (), run.now_s())]
        if prompt.source is not None:
            self._follow(request, prompt.source)
        return [*prompt.losses, *self._send_more(request, prompt)]

    def fill_readers(self, run: Run, source: Node[Any]) -> list[Event]:
        """Fill the prompts that take the unfinished text of a node, if it has grown."""
        events: list[Event] = []
        for gen in self.fills.grown(source):
            if self.request_of(run, gen) is not None:
                events += self.fill_prompt(run, gen)
        return events

    def update(self, role: str, updates: tuple[SchedulingInfo, ...]) -> None:
        """Send new scheduling info of nodes to an engine, by the ids of the engine's requests."""
        changed: dict[RequestId, SchedulingInfo] = {}
        for info in updates:
            request = self._by_request.get(info.request_id)
            if request is None:
                continue
            request.info = info
            if request.coalesced is not None:
                request.coalesced.info_of[info.request_id] = info
                info = request.coalesced.merged_info()
            changed[info.request_id] = info
        if changed:
            self._engines[role].backend.update(tuple(changed.values()))

    def shortens_prompt(self, request: InFlight, error: Exception) -> bool:
        """Whether the program is called for a shorter prompt, because the engine refused this."""
        if not isinstance(error, ContextOverflow) or request.has_output:
            return False
        return self._revisions.begin(request.run, request.gen, request.engine, error)

    def stop(self, request: InFlight, error: Exception, reason: str) -> None:
        """Have the engine end a request; its node ends with `error` once it has, or soon after.

        A request that other nodes need goes on, and this one is added to `departed`.
        """
        if request.stop_error is not None:
            return
        request.stop_error = error
        if request.is_cached:
            return
        coalesced = request.coalesced
        if coalesced is None or request.is_alone:
            if coalesced is not None:
                coalesced.stopping = True
            request.engine.backend.cancel(request.engine_id, reason)
            self.stopping[request] = request.run.now_s() + STOP_GRACE_S
            return
        before = coalesced.merged_info()
        self.forget(request)
        self.departed.append(request)
        _update_merged(request.engine, coalesced, before)

    def leave_overdue(self, now_s: float) -> None:
        """Let nodes depart from stopped requests that their engine has not ended in time.

        The engine ends them when it answers again, or is replaced; nothing waits for that.
        """
        for request, at_s in list(self.stopping.items()):
            if at_s > now_s:
                return
            request.is_overdue = True
            self.forget(request)
            self.departed.append(request)

    def _join_like(self, request: InFlight) -> Event | None:
        """Join a like request in flight, if there is one; else others may join this one."""
        is_cached = request.lookup is not None
        if not (request.prompt_complete and (request.takes.seeds or is_cached)):
            return None
        sent, role = request.whole(), request.engine.role
        coalesced = self._coalescing.find(sent, role, is_cached=is_cached)
        if coalesced is None:
            request.share(self._coalescing.open(sent, role, is_cached=is_cached), sent)
            return None
        before, now_s = coalesced.merged_info(), request.run.now_s()
        requests = self.in_flight[coalesced.request_id]
        first = requests[0]
        requests.append(request)
        request.share(coalesced, sent, joined_at_s=now_s)
        _update_merged(request.engine, coalesced, before)
        behind_s = now_s - coalesced.request.submitted_at_s
        terms = (("behind_s", behind_s), ("tokens_so_far", float(len(first.output_ids))))
        reason = f"{first.gen.label} of run {first.run.run_id} asks the same"
        run_id, node_id = request.run.run_id, request.gen.id
        return Scheduled(run_id, node_id, now_s, "joined", reason, terms=terms)

    def _follow(self, request: InFlight, source: Node[Any]) -> None:
        """Let a prompt grow with the text of a node."""
        request.takes_unfinished = True
        self.fills.add_reader(source, request.gen)

    def _check_unsent(self, run: Run, gen: Gen[Any]) -> list[Event]:
        """End a node that was not sent yet if one of its inputs has failed."""
        try:
            prompt_segments(gen.work.chat)
            _ = gen.work.output.known_constraint
        except Exception as error:
            return [failed(run, gen, error)]
        if gen.id not in run.deferred:
            return []
        run.deferred.discard(gen.id)
        return [PromptRevised(run.run_id, gen.id, (), run.now_s())]

    def _send_more(self, request: InFlight, prompt: Prompt) -> list[Event]:
        """Send the part of a prompt that has become known, or join a like request."""
        run, backend, events = request.run, request.engine.backend, list[Event]()
        more = prompt.token_ids[len(request.prompt_ids) :]
        segments = request.fill_messages(prompt.sent)
        if more or segments or prompt.complete:
            request.prompt_ids, request.prompt_complete = prompt.token_ids, prompt.complete
            constraint = request.fill_constraint(prompt.constraint)
            if self._retention.is_on:
                self._retention.note_prompt(request)
            if joined := self._join_like(request):
                del self.in_flight[request.request_id]
                backend.cancel(request.request_id, "a like one is under way")
                events.append(joined)
            else:
                traceparent = ""
                if prompt.complete and request.takes.backend == "remote":
                    traceparent = traceparent_of(run, request.gen, complete=True)
                fill = HoleFill(more, prompt.complete, constraint, segments, traceparent)
                backend.fill_hole(request.request_id, fill)
        if prompt.complete:
            events.append(HoleFilled(run.run_id, request.gen.id, run.now_s()))
        return events

    def _revise(self, request: InFlight, overflow: ContextOverflow | None) -> bool:
        """Whether the program is called for a shorter prompt; its request then ends."""
        if not self._revisions.begin(request.run, request.gen, request.engine, overflow):
            return False
        self._take_back(request, "its prompt is too long")
        return True

    def _take_back(self, request: InFlight, reason: str) -> None:
        """End a request before the node sends another one; the KV cache stays in the tree."""
        self.forget(request)
        request.engine.backend.cancel(request.request_id, reason)


def _update_merged(engine: ModelRole, coalesced: CoalescedRequest, before: SchedulingInfo) -> None:
    """Send the engine the scheduling info of a coalesced request, if it has changed."""
    if coalesced.info_of and (now := coalesced.merged_info()) != before:
        engine.backend.update((now,))
