"""What engines deliver, handed to the nodes it belongs to: text, items, values, errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentrt.base.errors import (
    AgentrtError,
    Degenerate,
    InternalError,
    NodeCancelled,
    RequestRejected,
    Truncated,
    revive,
)
from agentrt.base.ids import RequestId, RunId
from agentrt.base.segments import Generated
from agentrt.program import Each, Gen, GenMeta, Score
from agentrt.protocol.events import Event, FirstToken, ItemClosed
from agentrt.protocol.step_output import BackendDown, Delta, End, OptionScore, StepDone
from agentrt.runtime.completion import failed, succeeded
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.in_flight.reasoning_text import ReasoningDelta
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.requests.admission_events import AdmissionEvents
from agentrt.runtime.requests.coalescing import CoalescedRequest, ledger_of, left_ledger
from agentrt.runtime.requests.dispatch import RequestDispatcher
from agentrt.runtime.requests.retries import ask_again, failure
from agentrt.runtime.run import Run


class ResultDelivery:
    """Turns one delivery of an engine into what changed for nodes.

    Attributes:
        left: Nodes whose ends are due, for they left a request that goes on.
    """

    def __init__(
        self, generations: RequestDispatcher, runs: Mapping[RunId, Run], retention: KvRetention
    ) -> None:
        self._generations = generations
        self._retention = retention
        self.left = generations.left
        self._runs = runs
        self._placements = AdmissionEvents()

    def take(self, delivery: StepDone) -> list[Event]:
        """One step's tokens and ends."""
        events: list[Event] = []
        for admission in delivery.admissions:
            live = self._generations.live.get(admission.request_id)
            if live is not None:
                events.append(self._placements.placed(live.run_id, live.gen.id, admission))
        for delta in delivery.deltas:
            live = self._generations.live.get(delta.request_id)
            if live is None:
                continue
            if live.shared is None:
                self._add(live, delta, events)
            else:
                live.shared.deltas.append(delta)
                for one in tuple(live.shared.lives):
                    self._catch_up(one, live.shared, events)
        if self._retention.is_on and delivery.step is not None:
            self._memory(delivery)
        for end in delivery.ends:
            live = self._generations.live.get(end.request_id)
            if live is None:
                continue
            if live.shared is None:
                self._generations.forget(live)
                events += self._end(live, end)
            else:
                self._end_shared(live.shared, end, events)
        return events + self.end_left() if self.left else events

    def _memory(self, delivery: StepDone) -> None:
        """What an engine told of its memory."""
        assert delivery.step is not None
        for request_id in delivery.step.requests:
            live = self._generations.live.get(request_id)
            if live is not None:
                self._retention.stepped(live.engine.role, delivery)
                return

    def end_left(self) -> list[Event]:
        """The ends of nodes that left a request which others want."""
        events: list[Event] = []
        for live in self.left:
            ledger = left_ledger(live, self._runs[live.run_id].now_s())
            events += self._end(live, End(live.request_id, "cancelled", ledger))
        self.left.clear()
        return events

    def lose(self, down: BackendDown) -> list[Event]:
        """The requests that went down with an engine."""
        events: list[Event] = []
        for request_id in down.lost:
            for live in self._lives_of(request_id):
                self._generations.forget(live)
                error = live.stop_error or revive(down.error)
                self._keep(live, "failed", End(request_id, "failed"))
                events.append(failed(self._runs[live.run_id], live.gen, error))
        return events

    def _lives_of(self, request_id: RequestId) -> tuple[InFlight, ...]:
        """Who gets what a request gives."""
        live = self._generations.live.get(request_id)
        if live is None:
            return ()
        return (live,) if live.shared is None else tuple(live.shared.lives)

    def _end_shared(self, shared: CoalescedRequest, end: End, events: list[Event]) -> None:
        """The end of a request for everyone who gets what it gave."""
        for live in tuple(shared.lives):
            self._catch_up(live, shared, events)
            if live not in shared.lives:
                continue
            self._generations.forget(live)
            joined_at_s = live.joined_at_s
            its = (
                end
                if joined_at_s is None
                else replace(end, ledger=ledger_of(end.ledger, joined_at_s))
            )
            events += self._end(live, its)

    def _catch_up(self, live: InFlight, shared: CoalescedRequest, events: list[Event]) -> None:
        """All that a shared request gave since this node was last handed something."""
        for delta in shared.news_for(live):
            if live in shared.lives:  # else what came before has made it leave
                self._add(live, delta, events)

    def _add(self, live: InFlight, delta: Delta, events: list[Event]) -> None:
        run, gen = self._runs[live.run_id], live.gen
        now_s = run.now_s()
        if not live.begun:
            live.begun = True
            gen.first_token_at_s = now_s
            events.append(FirstToken(run.run_id, gen.id, now_s))
        live.token_ids += delta.token_ids
        live.logprobs += delta.logprobs
        self._count(live, len(delta.token_ids))
        if not delta.text:
            return
        if live.is_plain:
            answer = delta.text
            gen.add_text(answer)
        else:
            answer = self._tell(live, live.take(delta.text))
        if live.stop_error is not None:
            return
        try:
            items = live.reader.push(answer) if answer else []
        except Exception as error:
            self._generations.stop(live, _unreadable(live, error), "its output cannot be read")
            return
        if items and isinstance(gen, Each):
            for item in items:
                events.append(ItemClosed(run.run_id, gen.id, len(gen.items), now_s))
                gen.add_item(item)
        if live.repetition is not None and live.repetition.push(delta.text):
            stuck = Degenerate(
                f"{gen.label} repeats itself: ...{live.repetition.tail!r}", where=gen.site
            )
            self._generations.stop(live, stuck, "it repeats itself")

    @staticmethod
    def _tell(live: InFlight, told: ReasoningDelta) -> str:
        """Text for whoever reads along; what has to pass a check is held back. The answer in it."""
        if told.thought:
            live.gen.reasoning.append(told.thought)
        if told.answer and live.held is None:
            live.gen.add_text(told.answer)
        elif told.answer and live.held is not None:
            live.held.append(told.answer)
        return told.answer

    def _end(self, live: InFlight, end: End) -> list[Event]:
        run, gen = self._runs[live.run_id], live.gen
        if live.thoughts is not None:
            self._tell(live, live.thoughts.flush())
        self._keep(live, end.reason, end)
        error = live.stop_error or self._error_of(live, end)
        if error is not None and self._generations.refused(run, live, error):
            return []  # it goes on with another prompt
        value: Any = None
        if error is None:
            try:
                value = live.reader.finish(gen.text if live.is_plain else live.answer)
            except Exception as cause:
                if not gen.work.output.checked or not isinstance(cause, ValueError):
                    error = _unreadable(live, cause)
                elif again := ask_again(run, live, end, str(cause)):
                    return again
                else:
                    error = failure(live)
        if live.held:
            gen.add_text(live.answer)
        if self._retention.is_on and end.reason in ("stop", "length") and not gen.attempts:
            self._retention.answered(live, end.ledger)
        if error is not None:
            return [failed(run, gen, error, ledger=end.ledger, finish_reason=end.reason)]
        return [
            succeeded(
                run,
                gen,
                value,
                ledger=end.ledger,
                closed_early=end.closed_early,
                finish_reason=end.reason,
            )
        ]

    def _error_of(self, live: InFlight, end: End) -> Exception | None:
        gen = live.gen
        work = gen.work
        match end.reason:
            case "failed":
                if end.error is None:
                    return InternalError(f"{gen.label} failed without an error")
                return revive(end.error)
            case "cancelled":
                return NodeCancelled(
                    f"{gen.label} was cancelled by its engine", reason="cancelled by the engine"
                )
            case "length" if work.output.kind != "raw" and (
                live.thinks or (work.output.constraint is not None and not end.closed_early)
            ):
                return Truncated(
                    f"{gen.label} reached max_tokens={work.sampling.max_tokens} before its "
                    f"{work.output.name} was complete",
                    partial_text=live.answer,
                    partial=live.reader.partial(live.answer),
                    hint=(
                        "This engine cannot close outputs early: raise max_tokens"
                        if work.on_limit == "close"
                        else ""
                    ),
                )
            case _:
                return None

    @staticmethod
    def _count(live: InFlight, tokens: int) -> None:
        live.gen.produced_tokens += tokens
        for budget in live.gen.scope.budgets:
            budget.spend_tokens(tokens)

    def _keep(self, live: InFlight, reason: str, end: End) -> None:
        """What stays of a generation on its node: how it went, and its place in a chat."""
        gen, takes = live.gen, live.engine.capabilities
        gen.meta = GenMeta(
            takes.model,
            reason,
            end.closed_early,
            end.ledger,
            tuple(live.logprobs),
            end.stopped_by,
        )
        untold = end.ledger.output_tokens - gen.produced_tokens  # by engines that send no ids
        if untold > 0:
            self._count(live, untold)
        # A stop string is not part of the text, but of the ids: then the text is what goes on.
        ids = tuple(live.token_ids) if takes.codec and not end.stopped_by else ()
        calls, content, head = live.reader.calls(), live.reader.content(), ""
        raw = gen.text if live.is_plain else live.text
        if live.thoughts is not None:
            head = raw.removesuffix(live.answer)
            content = content if calls else live.answer
        gen.generated = Generated(raw, ids, takes.codec if ids else "", calls, content, head)
        if end.scores:
            gen.scores = _scores(gen, end.scores)


def _scores(gen: Gen[Any], told: tuple[OptionScore, ...]) -> tuple[Score[Any], ...]:
    """What an engine told of the options of a choice, with the values they stand for."""
    output = gen.work.output
    assert output.constraint is not None
    best = max(one.logprob for one in told)
    weights = [math.exp(one.logprob - best) for one in told]
    return tuple(
        Score(output.parse(option), weight / sum(weights), one.logprob, one.tokens)
        for option, weight, one in zip(output.constraint.options, weights, told, strict=True)
    )


def _unreadable(live: InFlight, error: Exception) -> AgentrtError:
    """The error for an output that is not of its type: the engine did not do its work."""
    if isinstance(error, AgentrtError):
        return error
    gen = live.gen
    work = gen.work
    what = (
        f"{gen.label}: the output {gen.text[:200]!r} is no {work.output.name} "
        f"({str(error).splitlines()[0]})"
    )
    if live.engine.capabilities.backend == "embedded":
        return InternalError(what)
    return RequestRejected(
        what, hint="This engine does not enforce output types: use another, or a simpler type"
    )
