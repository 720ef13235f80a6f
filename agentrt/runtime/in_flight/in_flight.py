"""One generation under way: what was sent, and what has come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.base.ids import RequestId, RunId
from agentrt.program import Gen
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo
from agentrt.protocol.step_output import TokenLogprob
from agentrt.runtime.in_flight.output_readers import Reader
from agentrt.runtime.in_flight.reasoning_text import ReasoningDelta, ReasoningText
from agentrt.runtime.in_flight.repetition import Repetition
from agentrt.runtime.model_role import ModelRole

if TYPE_CHECKING:
    from agentrt.runtime.requests.coalescing import CoalescedRequest


class InFlight:
    """A request that an engine has.

    Attributes:
        run_id: Its run.
        gen: Its node.
        engine: Who has it.
        request_id: Under which its node is known to have been sent.
        reader: Turns its text into items and a value.
        repetition: Watches for a model that is stuck; None where it is to run on.
        sent_ids: Prompt that the engine has been given.
        complete: Whether the engine has the whole prompt.
        token_ids: Produced so far.
        logprobs: Of those, when asked for.
        begun: Whether anything was produced.
        is_plain: All of its text is the answer, and may be read along.
        raw: The text as the model wrote it where that is more than the answer.
        thoughts: Cuts thought from it, where it was asked to think.
        held: Its answer, where nobody may read along: it has to pass a check first.
        stop_error: What the node ends with, once it was told to end.
        request: What was sent, as it was then; None until it was.
        shared: The request that it has in common with others, or could have; None when it cannot.
        joined_at_s: When it joined a request that was under way; None where it has its own.
        taken_deltas: How many of the shared request's deltas it has been given.
        info: Scheduling info last sent to its engine.
        keeps_prefixes: Later runs may continue from its prompt, see `RunOptions`.
    """

    __slots__ = (
        "begun",
        "complete",
        "engine",
        "gen",
        "held",
        "info",
        "is_plain",
        "joined_at_s",
        "keeps_prefixes",
        "logprobs",
        "raw",
        "reader",
        "repetition",
        "request",
        "request_id",
        "run_id",
        "sent_ids",
        "shared",
        "stop_error",
        "taken_deltas",
        "thoughts",
        "token_ids",
    )

    def __init__(
        self, run_id: RunId, gen: Gen[Any], engine: ModelRole, request_id: RequestId, reader: Reader
    ) -> None:
        self.run_id = run_id
        self.gen = gen
        self.engine = engine
        self.request_id = request_id
        self.reader = reader
        self.sent_ids: tuple[int, ...] = ()
        self.complete = False
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.begun = False
        work = gen.work
        runs_on = work.sampling.ignore_eos or work.output.kind == "raw"
        self.repetition = None if runs_on else Repetition()
        frame = engine.capabilities.thinking
        thinks = work.thinking_tokens is not None and frame is not None
        self.raw: list[str] = []
        self.thoughts = ReasoningText(frame) if thinks and frame is not None else None
        self.held: list[str] | None = [] if work.output.checked else None
        self.is_plain = self.thoughts is None and self.held is None
        self.stop_error: Exception | None = None
        self.request: GenerateRequest | None = None
        self.shared: CoalescedRequest | None = None
        self.joined_at_s: float | None = None
        self.taken_deltas = 0
        self.info: SchedulingInfo | None = None
        self.keeps_prefixes = False

    @property
    def engine_id(self) -> RequestId:
        """Under which its engine computes it: another one's, where it joined that."""
        return self.request_id if self.shared is None else self.shared.request_id

    @property
    def cache_salt(self) -> str:
        """Salt of the request; "" before it was sent."""
        return "" if self.request is None else self.request.cache_salt

    def take(self, text: str) -> ReasoningDelta:
        """More text, cut into thought and answer."""
        self.raw.append(text)
        return (
            self.thoughts.push(text) if self.thoughts is not None else ReasoningDelta(answer=text)
        )

    @property
    def text(self) -> str:
        """All that the model wrote."""
        return "".join(self.raw)

    @property
    def answer(self) -> str:
        """The answer so far."""
        return self.gen.text if self.held is None else "".join(self.held)

    @property
    def thinks(self) -> bool:
        """Whether its answer has not begun yet."""
        return self.thoughts is not None and not self.thoughts.ended
