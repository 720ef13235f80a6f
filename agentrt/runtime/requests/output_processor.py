"""Outputs of engines on their way to nodes: the order of all steps stands here.

One engine step (`StepDone`) gives the tokens and ends of many requests. Each goes through the same
steps on its `InFlight`: tokens, text, items, the check for repetition; at the end the result, the
outcome, and what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from agentrt.base.errors import Degenerate, revive
from agentrt.base.ids import RequestId
from agentrt.program.generation import add_text, forget_text
from agentrt.protocol.events import Event, PromptRevised
from agentrt.protocol.step_output import BackendDown, Delta, End, StepDone
from agentrt.runtime.completion import failed, succeeded
from agentrt.runtime.in_flight.coalescing import CoalescedRequest
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.in_flight.ledgers import (
    cached_ledger,
    departed_ledger,
    joined_ledger,
    unpaid,
)
from agentrt.runtime.in_flight.outcome import Outcome, keep_result, outcome_of, unreadable
from agentrt.runtime.in_flight.replay import Replay, divergence_of
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.requests.admission_events import AdmissionEvents
from agentrt.runtime.requests.dispatch import RequestDispatcher
from agentrt.runtime.requests.large_answers import LargeAnswers
from agentrt.runtime.requests.retries import ask_again, check_failed
from agentrt.runtime.tenant_usage import TenantUsages
from agentrt.scheduler import InternalEvent


class OutputProcessor:
    """Turns the outputs of engines into events, and into the texts and values of nodes.

    Attributes:
        departed: Requests that left a coalesced one, which goes on; their nodes have yet to end.
        stopping: Stopped requests, see `RequestDispatcher`.
        cached: Requests with an answer of the response cache; their nodes have yet to get it.
    """

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        retention: KvRetention,
        post: Callable[[InternalEvent], None],
        tenants: TenantUsages,
    ) -> None:
        self._dispatcher = dispatcher
        self._tenants = tenants
        self._large_answers = LargeAnswers(post)
        self._in_flight = dispatcher.in_flight
        self._retention = retention
        self._fills = dispatcher.fills
        self._admissions = AdmissionEvents()
        self.departed = dispatcher.departed
        self.stopping = dispatcher.stopping
        self.cached = dispatcher.cached

    def process(self, step: StepDone) -> list[Event]:
        """Hand on the output of one step: admissions, tokens, free memory, ends."""
        events: list[Event] = []
        recovery = self._dispatcher.recovery
        for admission in step.admissions:
            if requests := self._in_flight.get(admission.request_id):
                first = requests[0]
                events.append(self._admissions.placed(first.run.run_id, first.gen.id, admission))
        for delta in step.deltas:
            requests = self._in_flight.get(delta.request_id)
            if requests is None:
                continue
            if recovery.quarantines:
                recovery.note_output(delta.request_id)
            new = self._replayed(requests, delta, events) if recovery.replays else delta
            if new is None:
                continue
            if requests[0].coalesced is None:
                self._add_output(requests[0], new, events)
            else:
                self._share_output(requests, requests[0].coalesced, new, events)
        if self._retention.is_on and step.step is not None:
            self._note_memory(step)
        for end in step.ends:
            if recovery.quarantines and recovery.takes_end(end):
                continue
            if requests := self._in_flight.get(end.request_id):
                events += self._end_all(requests, end)
        return events + self.end_departed() if self.departed else events

    def end_departed(self) -> list[Event]:
        """End the nodes in `departed`."""
        events: list[Event] = []
        for request in self.departed:
            ledger = departed_ledger(request, request.run.now_s())
            events += self._end(request, End(request.request_id, "cancelled", ledger))
        self.departed.clear()
        return events

    def end_cached(self) -> list[Event]:
        """Give the nodes in `cached` their answers, by the steps that outputs of engines take."""
        events: list[Event] = []
        for request in tuple(self.cached):
            lookup = request.lookup
            assert lookup is not None
            answer = lookup.answer
            assert answer is not None
            delta = Delta(
                request.request_id,
                answer.token_ids,
                answer.text,
                logprobs=answer.logprobs,
                reasoning=answer.reasoning,
            )
            self._add_output(request, delta, events)
            end = End(
                request.request_id,
                "stop",
                cached_ledger(answer, request.run.now_s()),
                stopped_by=answer.stopped_by,
                scores=answer.scores,
                not_sent=answer.not_sent,
            )
            events += self._end(request, end)
        self.cached.clear()
        return events

    def end_overdue(self, now_s: float) -> list[Event]:
        """End nodes whose engine was told to end their request, and has not."""
        self._dispatcher.leave_overdue(now_s)
        return self.end_departed()

    def recover(self, down: BackendDown) -> list[Event]:
        """Let requests that were lost with an engine go on, or fail their nodes if none comes."""
        error, recovery = revive(down.error), self._dispatcher.recovery
        if not down.restarting:
            return self._fail_lost(dict.fromkeys(recovery.abandon(down.lost), error))
        events, refused = recovery.resubmit(down.lost, error, own_fault=down.own_fault)
        return events + self._fail_lost(refused)

    def _fail_lost(self, errors: Mapping[RequestId, Exception]) -> list[Event]:
        """Fail the nodes of lost requests, each with its error."""
        events: list[Event] = []
        for request_id, error in errors.items():
            for request in tuple(self._in_flight[request_id]):
                self._dispatcher.forget(request)
                keep_result(request, End(request_id, "failed"))
                self._dispatcher.costs.settle(request.reservation, None)
                events.append(failed(request.run, request.gen, request.stop_error or error))
        return events

    def _replayed(
        self, requests: list[InFlight], delta: Delta, events: list[Event]
    ) -> Delta | None:
        """The part of some output that is new, if it is being written anew; else all of it."""
        replays = self._dispatcher.recovery.replays
        replay = replays.get(delta.request_id)
        if replay is None:
            return delta
        if replay.departed:
            return None
        new = replay.push(delta)
        if replay.departed:
            self._replace_output(requests, replay, events)
        elif replay.through:
            del replays[delta.request_id]
        return new

    def _replace_output(
        self, requests: list[InFlight], replay: Replay, events: list[Event]
    ) -> None:
        """Take a second output in place of the first; it ends nodes that were given the first."""
        engine_id, coalesced = requests[0].engine_id, requests[0].coalesced
        after = "".join(delta.text for delta in replay.deltas)
        go_on: list[InFlight] = []
        for request in tuple(requests):
            diverged = divergence_of(request, after)
            if diverged is not None:
                self._dispatcher.stop(request, diverged, "its engine wrote something else")
            elif request.stop_error is None:
                go_on.append(request)
        if not go_on:
            return
        del self._dispatcher.recovery.replays[engine_id]
        if coalesced is not None:
            coalesced.deltas[:] = replay.deltas
        for request in go_on:
            request.begin_anew()
            self._fills.begin_anew(request.gen)
            if coalesced is not None:
                self._catch_up(request, coalesced, events)
                continue
            for delta in replay.deltas:
                self._add_output(request, delta, events)

    def _share_output(
        self,
        requests: list[InFlight],
        coalesced: CoalescedRequest,
        delta: Delta,
        events: list[Event],
    ) -> None:
        """Give new output to all nodes that share a request."""
        coalesced.deltas.append(delta)
        for request in tuple(requests):
            self._catch_up(request, coalesced, events)

    def _catch_up(
        self, request: InFlight, coalesced: CoalescedRequest, events: list[Event]
    ) -> None:
        """Give a node all shared output that it has not had yet, unless that makes it leave."""
        for delta in request.unread_deltas(coalesced):
            if request.request_id in coalesced.info_of:
                self._add_output(request, delta, events)

    def _add_output(self, request: InFlight, delta: Delta, events: list[Event]) -> None:
        """The steps of new output."""
        if not request.has_output:
            events.append(request.first_token())
        request.add_tokens(delta)
        if delta.reasoning:
            request.gen.written.reasoning.append(delta.reasoning)
        if not delta.text:
            return
        answer = request.add_text(delta.text)
        if request.stop_error is not None:
            return
        if request.reads_items and answer:
            try:
                events += request.read_items(answer)
            except Exception as error:
                reason = "its output cannot be read"
                self._dispatcher.stop(request, unreadable(request, error), reason)
                return
        repetition = request.repetition
        if repetition is not None and repetition.push(delta.text):
            message = f"{request.gen.label} repeats itself: ...{repetition.tail!r}"
            stuck = Degenerate(message, where=request.gen.site)
            self._dispatcher.stop(request, stuck, "it repeats itself")
        elif self._fills.readers:
            events += self._dispatcher.fill_readers(request.run, request.gen)

    def _end_all(self, requests: list[InFlight], end: End) -> list[Event]:
        """End an engine's request for each node that gets its output."""
        events: list[Event] = []
        paid = False
        if replays := self._dispatcher.recovery.replays:
            replay = replays.get(end.request_id)
            whole = end.reason in ("stop", "length")
            if replay is not None and whole and not (replay.departed or replay.complete):
                self._replace_output(requests, replay, events)  # it is shorter than the first one
        for request in tuple(requests):
            coalesced, own_end = request.coalesced, end
            if coalesced is not None:
                self._catch_up(request, coalesced, events)
                if request.request_id not in coalesced.info_of:
                    continue  # what it has just been given made it leave
            if request.joined_at_s is not None:
                own_end = replace(end, ledger=joined_ledger(end.ledger, request.joined_at_s))
            if paid:
                own_end = replace(own_end, ledger=unpaid(own_end.ledger))
            paid = True
            self._dispatcher.forget(request)
            events += self._end(request, own_end)
        return events

    def _end(self, request: InFlight, end: End) -> list[Event]:
        """The steps at the end of a node's request."""
        if request.reasoning is not None:
            request.publish(request.reasoning.flush())
        keep_result(request, end)
        self._tenants.charge(request.run.options.tenant, end.ledger)
        if request.reservation is not None:
            is_unknown = end.ledger.is_estimated or request.is_overdue
            cost_pico = None if is_unknown else end.ledger.cost_pico
            self._dispatcher.costs.settle(request.reservation, cost_pico)
        if self._large_answers.is_one(request, end):
            self._large_answers.begin(request, end, partial(self._finish, request, end))
            return []
        return self._finish(request, end, outcome_of(request, end))

    def _finish(self, request: InFlight, end: End, outcome: Outcome) -> list[Event]:
        """The events that follow from the outcome of a request."""
        run, gen = request.run, request.gen
        error = outcome.error
        if error is not None and self._dispatcher.shortens_prompt(request, error):
            return []  # the node goes on with another prompt
        is_cached = request.lookup is not None and request.is_cached
        if is_cached and self._is_rejected(request, outcome):
            return [PromptRevised(run.run_id, gen.id, (), run.now_s())]
        if outcome.failed_check is not None:
            if again := ask_again(request, end, outcome.failed_check):
                return again
            error = check_failed(request, end)
        if request.unchecked_text:
            add_text(gen, request.answer)
        is_written = end.reason in ("stop", "length") and not is_cached
        if self._retention.is_on and is_written and not gen.attempts:
            self._retention.note_answer(request, end.ledger)
        if error is not None:
            return [failed(run, gen, error, end)]
        if request.lookup is not None:
            self._dispatcher.responses.keep(request, end)
        return [succeeded(run, gen, outcome.value, end)]

    def _is_rejected(self, request: InFlight, outcome: Outcome) -> bool:
        """Whether a cached answer is dropped and computed anew, since its checks have changed.

        What the program may have seen of it is not taken back.
        """
        if outcome.error is None and outcome.failed_check is None:
            return False
        gen, lookup = request.gen, request.lookup
        assert lookup is not None
        self._dispatcher.responses.reject(lookup)
        if gen.written.handed_on or gen.work.output.kind != "value":
            return False
        forget_text(gen)
        return True

    def _note_memory(self, step: StepDone) -> None:
        """Note how much KV memory the engine of this step has left."""
        assert step.step is not None
        for request_id in step.step.requests:
            if requests := self._in_flight.get(request_id):
                self._retention.note_memory(requests[0].engine.role, step)
                return
