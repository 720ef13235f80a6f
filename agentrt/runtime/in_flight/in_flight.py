"""A request in flight: what was sent for a node, and the output that has come back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.base.segments import Segment
from agentrt.program import Each, Gen, Tagged, TaggedText
from agentrt.program.budget import Budget
from agentrt.program.chat import add_item
from agentrt.program.generation import add_text, forget_text
from agentrt.program.tagged_text import add_piece
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    MessagePrompt,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.events import Event, FirstToken, ItemClosed
from agentrt.protocol.step_output import Delta, TokenLogprob
from agentrt.runtime.in_flight.coalescing import CoalescedRequest
from agentrt.runtime.in_flight.cost_reservation import CostReservation
from agentrt.runtime.in_flight.output_readers import ValueReader, item_texts, reader_of
from agentrt.runtime.in_flight.reasoning_text import ReasoningDelta, ReasoningText
from agentrt.runtime.in_flight.repetition import RepetitionCheck
from agentrt.runtime.in_flight.response_lookup import ResponseLookup
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.run import Run


@dataclass(slots=True, eq=False)
class InFlight:
    """A request that an engine has, and the steps by which its output reaches the node.

    Attributes:
        run: The run of the node.
        gen: The node.
        engine: The engine that has the request.
        request_id: The id under which the node's request is known to observers.
        takes: Abilities of that engine.
        reader: Makes items and a value of the answer.
        reads_items: Whether `reader` reads the answer as it comes, not only at the end.
        repetition: Detects endless repetition; None if repetition is allowed.
        prompt_ids: Prompt tokens that the engine has been given.
        prompt_complete: Whether the engine has the whole prompt and the whole constraint.
        output_ids: Output tokens so far.
        logprobs: One entry for each of those, if they were asked for.
        has_output: Whether anything was produced.
        streams_text: True if the output has neither reasoning nor a deferred check, so that its
            text can be streamed as it is.
        reasoning: Separates the reasoning from the answer; None if the text is all answer.
        unchecked_text: Text of the answer, held back until it is checked; None without a check.
        stop_error: The error of the node once its request has been stopped, else None.
        takes_unfinished: Whether its prompt took text that may turn out otherwise.
        sent: The request as it was sent; None before.
        coalesced: The engine's request that gives the output; None if it cannot be shared.
        joined_at_s: When it joined a request that was in flight; None if it has its own.
        info: Scheduling info last sent to the engine.
        reservation: Money set aside for it; None if no limit of cost holds.
        lookup: Look-up in the response cache; None for a request that uses none.
        is_overdue: Whether its engine was told to end it and has not, so that its cost is unknown.
    """

    run: Run
    gen: Gen[Any]
    engine: ModelRole
    request_id: RequestId
    takes: Capabilities = field(init=False)
    reader: ValueReader = field(init=False)
    reads_items: bool = field(init=False)
    repetition: RepetitionCheck | None = None
    prompt_ids: tuple[int, ...] = ()
    prompt_complete: bool = False
    output_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    has_output: bool = False
    streams_text: bool = field(init=False)
    reasoning: ReasoningText | None = None
    unchecked_text: list[str] | None = None
    stop_error: Exception | None = None
    takes_unfinished: bool = False
    sent: GenerateRequest | None = None
    coalesced: CoalescedRequest | None = None
    joined_at_s: float | None = None
    info: SchedulingInfo | None = None
    reservation: CostReservation | None = None
    lookup: ResponseLookup | None = None
    is_overdue: bool = False
    _budgets: tuple[Budget, ...] = field(init=False)
    _raw_text: list[str] = field(default_factory=list)
    _read_deltas: int = 0

    def __post_init__(self) -> None:
        self.takes = self.engine.capabilities
        self.gen.output_ids, self.gen.logprobs = self.output_ids, self.logprobs
        self.reads_items = self.gen.work.output.kind in ("items", "calls", "step", "tagged")
        self._expect_output()
        self.streams_text = self.reasoning is None and self.unchecked_text is None
        self._budgets = self.gen.scope.budgets

    def _expect_output(self) -> None:
        """Make what reads an output from its beginning."""
        work, takes = self.gen.work, self.takes
        output = work.output
        self.reader = reader_of(self.gen, takes.call_frame)
        if not work.sampling.ignore_eos and output.kind != "raw":
            self.repetition = RepetitionCheck()
        if work.thinking_tokens is not None and takes.thinking is not None:
            self.reasoning = ReasoningText(takes.thinking)
        if output.checked:
            self.unchecked_text = []

    # What is sent.

    @property
    def engine_id(self) -> RequestId:
        """The id by which the engine knows the request, which may be that of another node."""
        return self.request_id if self.coalesced is None else self.coalesced.request_id

    @property
    def cache_salt(self) -> str:
        """Salt of the request; "" before it was sent."""
        return self.run.options.cache_salt

    @property
    def is_cached(self) -> bool:
        """Whether its output is an answer of the response cache."""
        return self.lookup is not None and self.lookup.answer is not None

    @property
    def is_alone(self) -> bool:
        """Whether no other node gets the output."""
        return self.coalesced is None or len(self.coalesced.info_of) == 1

    def whole(self) -> GenerateRequest:
        """The request as it would have been sent with its whole prompt at once."""
        assert self.sent is not None
        prompt = self.sent.prompt
        if not isinstance(prompt, TokenPrompt) or prompt.complete:
            return self.sent
        return replace(self.sent, prompt=TokenPrompt(self.prompt_ids))

    def fill_messages(self, prompt: TokenPrompt | MessagePrompt) -> tuple[Segment, ...]:
        """Keep a prompt of messages as it is known now; gives its segments, () for token ids."""
        if isinstance(prompt, TokenPrompt):
            return ()
        assert self.sent is not None
        self.sent = replace(self.sent, prompt=prompt)
        return prompt.segments

    def fill_constraint(self, constraint: ConstraintSpec | None) -> ConstraintSpec | None:
        """Keep the constraint for engines to come; it is returned if this one lacks it yet."""
        assert self.sent is not None
        if constraint is None or constraint == self.sent.constraint:
            return None
        self.sent = replace(self.sent, constraint=constraint)
        return constraint

    def share(
        self,
        coalesced: CoalescedRequest | None,
        sent: GenerateRequest,
        joined_at_s: float | None = None,
    ) -> None:
        """Get the output of an engine's request that other nodes may share, from its beginning."""
        self.coalesced = coalesced
        self.joined_at_s = joined_at_s
        if coalesced is not None:
            coalesced.add_node(sent, self.info)

    # What comes back, in the order in which `OutputProcessor` takes these steps.

    def unread_deltas(self, coalesced: CoalescedRequest) -> list[Delta]:
        """The shared output that this request has not been given yet."""
        deltas = coalesced.deltas[self._read_deltas :]
        self._read_deltas = len(coalesced.deltas)
        return deltas

    def first_token(self) -> Event:
        """Note that the output has begun."""
        self.has_output = True
        self.gen.written.first_token_at_s = now_s = self.run.now_s()
        return FirstToken(self.run.run_id, self.gen.id, now_s)

    def add_tokens(self, delta: Delta) -> None:
        """Append tokens, and count them in the budgets of the node."""
        self.output_ids += delta.token_ids
        self.logprobs += delta.logprobs
        self.gen.written.produced_tokens += len(delta.token_ids)
        for budget in self._budgets:
            budget.spend_tokens(len(delta.token_ids))

    def count_rest(self, output_tokens: int) -> None:
        """Count tokens of an output of this length that the engine sent without their ids."""
        uncounted = output_tokens - len(self.output_ids)
        if uncounted > 0:
            self.gen.written.produced_tokens += uncounted
            for budget in self._budgets:
                budget.spend_tokens(uncounted)

    def add_text(self, text: str) -> str:
        """Append text to the reasoning or to the answer; gives the part for the answer."""
        if self.streams_text:
            add_text(self.gen, text)
            return text
        self._raw_text.append(text)
        if self.reasoning is None:
            return self.publish(ReasoningDelta(answer=text))
        return self.publish(self.reasoning.push(text))

    def publish(self, part: ReasoningDelta) -> str:
        """Let readers have text, unless it has to be checked first; gives that for the answer."""
        if part.thought:
            self.gen.written.reasoning.append(part.thought)
        if part.answer:
            if self.unchecked_text is None:
                add_text(self.gen, part.answer)
            else:
                self.unchecked_text.append(part.answer)
        return part.answer

    def read_items(self, answer: str) -> list[Event]:
        """Hand out the items that more of the answer completes.

        Raises:
            Exception: The text is not of the type of the output.
        """
        items, gen = self.reader.push(answer), self.gen
        events: list[Event] = []
        if items and isinstance(gen, Each):
            now_s = self.run.now_s()
            for item in items:
                events.append(ItemClosed(self.run.run_id, gen.id, len(gen.items), now_s))
                add_item(gen, item)
        elif items and isinstance(gen, TaggedText):
            for piece in items:
                if isinstance(piece, Tagged):
                    closed = sum(isinstance(one, Tagged) for one in gen.pieces)
                    event = ItemClosed(self.run.run_id, gen.id, closed, self.run.now_s())
                    events.append(event)
                add_piece(gen, piece)
        return events

    def begin_anew(self) -> None:
        """Forget the output, except for the items that were handed out."""
        self.output_ids.clear()
        self.logprobs.clear()
        self._raw_text.clear()
        self._read_deltas = 0
        forget_text(self.gen)
        self._expect_output()

    def items_in(self, raw_text: str) -> list[str]:
        """The texts of the items that are complete in a text of the model."""
        takes = self.takes
        if self.reasoning is not None and takes.thinking is not None:
            raw_text = ReasoningText(takes.thinking).push(raw_text).answer
        return item_texts(self.gen, takes.call_frame, raw_text)

    @property
    def raw_text(self) -> str:
        """The text as the model wrote it."""
        return "".join(self.gen.written.chunks if self.streams_text else self._raw_text)

    @property
    def answer(self) -> str:
        """The answer so far."""
        return "".join(
            self.gen.written.chunks if self.unchecked_text is None else self.unchecked_text
        )

    @property
    def is_reasoning(self) -> bool:
        """Whether the answer has not begun yet."""
        return self.reasoning is not None and not self.reasoning.ended
