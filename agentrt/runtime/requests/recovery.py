"""Recovery of requests from a lost engine, and quarantine of those that may have ended it.

A request goes on behind the output that the program has been given, so that no token comes twice.
An engine that cannot go on writes its output anew, which is compared with the first one (`Replay`).
If the engine ended by an error of its own, each request under way may be the cause. Then they are
tried one at a time, each until its first new token: the engine had ended at that point. The others
wait. Only a request that has ended an engine twice while alone is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agentrt.base.errors import AgentrtError, BudgetExceeded, RequestRejected
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo, TokenPrompt
from agentrt.protocol.events import Event, Scheduled
from agentrt.protocol.step_output import End
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.in_flight.replay import Replay

MAX_DEATHS_ALONE = 2
"""Engines that a request may end while it is alone, before it is refused."""


@dataclass(slots=True, eq=False)
class Quarantine:
    """Requests of one engine that are tried alone, and those that wait until the trials are over.

    Attributes:
        suspects: Requests yet to be tried.
        waiting: Requests that go on together after the trials.
        trial: The request under trial; None between trials.
        passed: Whether the request under trial has produced a token and is being taken back.
    """

    suspects: deque[RequestId] = field(default_factory=deque)
    waiting: list[RequestId] = field(default_factory=list)
    trial: RequestId | None = None
    passed: bool = False

    def suspect(self, lost: Iterable[RequestId], can_be_tried: set[RequestId]) -> None:
        """Add lost requests, the one under trial first; the others wait."""
        for request_id in lost:
            if request_id == self.trial:
                self.suspects.appendleft(request_id)
            elif request_id not in can_be_tried:
                self.waiting.append(request_id)
            elif request_id not in self.suspects:
                self.suspects.append(request_id)
        self.trial, self.passed = None, False

    def next_trial(self, alive: Mapping[RequestId, object]) -> RequestId | None:
        """Begin the next trial; None if there is nothing left to try."""
        self.trial, self.passed = None, False
        while self.suspects and self.trial is None:
            request_id = self.suspects.popleft()
            self.trial = request_id if request_id in alive else None
        return self.trial


class RequestRecovery:
    """Submits requests again if their engine was lost.

    Args:
        in_flight: Requests by the id that their engine knows.

    Attributes:
        quarantines: Trials under way, by role of the engine.
        deaths_alone: Engines that a request in flight has ended while it was alone.
        replays: Requests in flight whose output is being written anew.
    """

    def __init__(self, in_flight: dict[RequestId, list[InFlight]]) -> None:
        self._in_flight = in_flight
        self.quarantines: dict[str, Quarantine] = {}
        self.deaths_alone: dict[RequestId, int] = {}
        self.replays: dict[RequestId, Replay] = {}

    def forget(self, request_id: RequestId) -> None:
        """Forget a request that is no longer in flight."""
        self.deaths_alone.pop(request_id, None)
        self.replays.pop(request_id, None)

    def holds(self, role: str, request_id: RequestId) -> bool:
        """Whether a new request waits until the trials at its engine are over."""
        quarantine = self.quarantines.get(role)
        if quarantine is not None:
            quarantine.waiting.append(request_id)
        return quarantine is not None

    def resubmit(
        self, lost: Iterable[RequestId], error: AgentrtError, *, own_fault: bool
    ) -> tuple[list[Event], dict[RequestId, AgentrtError]]:
        """Let lost requests go on at the engine that comes next.

        Args:
            lost: Requests by the ids of their engine; some may have ended for their nodes already.
            error: How the engine ended.
            own_fault: Whether it ended by an error of its own, which a request may have caused.

        Returns:
            Events, and the requests that cannot go on with the error of each.
        """
        events: list[Event] = []
        refused: dict[RequestId, AgentrtError] = {}
        by_role: dict[str, list[RequestId]] = {}
        lost = tuple(lost)
        for request_id in [one for one in lost if one in self._in_flight]:
            requests = self._in_flight[request_id]
            if (reason := self._refusal(requests, error, own_fault)) is not None:
                refused[request_id] = reason
                continue
            by_role.setdefault(requests[0].engine.role, []).append(request_id)
            events += [_resubmitted(one, error) for one in requests]
        for role, request_ids in by_role.items():
            self._recover(role, request_ids, own_fault)
        for role in [role for role in self.quarantines if role not in by_role]:
            quarantine = self.quarantines[role]
            if quarantine.trial in lost:  # it is refused, or its nodes have left it
                self._next_trial(role, quarantine)
        return events, refused

    def abandon(self, lost: Iterable[RequestId]) -> list[RequestId]:
        """End the trials at an engine that is not replaced.

        Args:
            lost: Requests by the ids of their engine.

        Returns:
            Requests in flight that are lost, those that waited for a trial included.
        """
        found = set(lost)
        for role, quarantine in list(self.quarantines.items()):
            if quarantine.trial in found:
                found.update(quarantine.suspects, quarantine.waiting)
                del self.quarantines[role]
        return [request_id for request_id in self._in_flight if request_id in found]

    def note_output(self, request_id: RequestId) -> None:
        """Note that a request has new output: if it is under trial, it has passed."""
        for quarantine in self.quarantines.values():
            if quarantine.trial == request_id and not quarantine.passed:
                quarantine.passed = True
                self.deaths_alone.pop(request_id, None)
                self._in_flight[request_id][0].engine.backend.cancel(
                    request_id, "the next request is tried"
                )

    def takes_end(self, end: End) -> bool:
        """Whether an end only takes a request back from its trial; its nodes go on later."""
        for role, quarantine in list(self.quarantines.items()):
            if quarantine.trial != end.request_id:
                continue
            requests = self._in_flight.get(end.request_id, [])
            goes_on = (
                quarantine.passed
                and end.reason == "cancelled"
                and any(one.stop_error is None for one in requests)
            )
            if goes_on:
                quarantine.waiting.append(end.request_id)
            self._next_trial(role, quarantine)
            return goes_on
        return False

    def _refusal(
        self, requests: list[InFlight], error: AgentrtError, own_fault: bool
    ) -> AgentrtError | None:
        """The error of a request that cannot go on, or None."""
        first = requests[0]
        if first.stop_error is not None:
            return error
        held = [one.reservation for one in requests if one.reservation is not None]
        if not all(one.fits() for one in held):
            return BudgetExceeded(
                f"{first.gen.label}: its answer broke off ({error.message}), and limits(cost=...) "
                "leaves too little for another attempt",
                hint="Raise limits(cost=...)",
                where=first.gen.site,
            )
        for one in held:
            one.reserve()
        request_id = first.engine_id
        quarantine = self.quarantines.get(first.engine.role)
        is_alone = quarantine is not None and quarantine.trial == request_id
        if own_fault and (is_alone or self._only_one(first.engine.role)):
            deaths = self.deaths_alone[request_id] = self.deaths_alone.get(request_id, 0) + 1
            if deaths >= MAX_DEATHS_ALONE:
                return RequestRejected(
                    f"{first.gen.label} ended the engine {deaths} times while nothing else was "
                    f"computed: {error.message}",
                    hint="Change the request; the engine goes on with others",
                    where=first.gen.site,
                )
        return None

    def _only_one(self, role: str) -> bool:
        return sum(ones[0].engine.role == role for ones in self._in_flight.values()) == 1

    def _recover(self, role: str, lost: list[RequestId], own_fault: bool) -> None:
        quarantine = self.quarantines.get(role)
        if quarantine is None:
            if not own_fault:
                self._submit_again(lost)
                return
            quarantine = self.quarantines[role] = Quarantine()
        complete = {one for one in lost if self._in_flight[one][0].prompt_complete}
        quarantine.suspect(lost, complete)
        self._next_trial(role, quarantine)

    def _next_trial(self, role: str, quarantine: Quarantine) -> None:
        """Try the next request; after the last one the others go on."""
        trial = quarantine.next_trial(self._in_flight)
        if trial is not None:
            self._submit_again([trial])
            return
        del self.quarantines[role]
        self._submit_again(one for one in quarantine.waiting if one in self._in_flight)

    def _submit_again(self, request_ids: Iterable[RequestId]) -> None:
        for request_id in request_ids:
            requests = self._in_flight[request_id]
            first = requests[0]
            if first.has_output and not _resumes(first):
                self.replays[request_id] = Replay(first)
            first.engine.backend.submit(resumed_request(requests))


def resumed_request(requests: list[InFlight]) -> GenerateRequest:
    """The request as an engine needs it that knows nothing of it.

    Args:
        requests: In-flight requests of the nodes that share its output.
    """
    first = requests[0]
    coalesced = first.coalesced
    info: SchedulingInfo | None
    if coalesced is not None:
        output_ids = [token for delta in coalesced.deltas for token in delta.token_ids]
        sent, info = coalesced.request, coalesced.merged_info()
    else:
        assert first.sent is not None
        output_ids, sent, info = first.output_ids, first.sent, first.info or first.sent.info
        if isinstance(sent.prompt, TokenPrompt):
            prompt = TokenPrompt(first.prompt_ids, first.prompt_complete)
            sent = replace(sent, prompt=prompt)
    if info is not None:
        sent = replace(sent, info=info, demanded=info.demanded, deadline_at_s=info.deadline_at_s)
    return replace(sent, output_ids=tuple(output_ids) if _resumes(first) else ())


def _resumes(request: InFlight) -> bool:
    """Whether its engine goes on behind the output that there is."""
    takes, sent = request.engine.capabilities, request.sent
    keeps_state = sent is not None and sent.keeps_state
    return takes.resumes and (takes.resumes_state or not keeps_state)


def _resubmitted(request: InFlight, error: AgentrtError) -> Event:
    return Scheduled(
        request.run.run_id,
        request.gen.id,
        request.run.now_s(),
        "resubmitted",
        f"its engine was lost: {error.message}",
        terms=(("output_tokens", float(len(request.output_ids))),),
    )
