"""One request inside a scripted engine, and its ledger."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import Delta, End, Ledger, UnmetAnswer
from agentrt.testing.answer import ScriptedAnswer
from agentrt.testing.timed_output import TimedPart, timed_ledger


@dataclass(slots=True, eq=False)
class ScriptedRequest:
    """A request between submit and end.

    Attributes:
        request: The request as submitted.
        prompt_ids: Prompt ids known so far.
        complete: Whether no hole is open.
        demanded: Whether the program awaits it.
        deadline_at_s: Latest deadline.
        answer: The answer, from admission on.
        produced: Number of answer tokens delivered.
        cancelled: Whether it was aborted.
        accounted_until_s: Instant up to which its time is accounted for.
        text: Text delivered so far, of a timed answer.
        ledger: Fields of its ledger, by name.
    """

    request: GenerateRequest
    prompt_ids: tuple[int, ...]
    complete: bool
    demanded: bool
    deadline_at_s: float | None = None
    answer: ScriptedAnswer | None = None
    produced: int = 0
    cancelled: bool = False
    accounted_until_s: float = 0.0
    text: str = ""
    ledger: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, request: GenerateRequest, prompt_ids: tuple[int, ...], now_s: float
    ) -> ScriptedRequest:
        """The request at its arrival."""
        prompt = request.prompt
        new = cls(request, prompt_ids, False, request.demanded, request.deadline_at_s)
        new.ledger = {"received_at_s": now_s}
        if not isinstance(prompt, TokenPrompt) or prompt.complete:
            new.complete_at(now_s)
        return new

    @property
    def written(self) -> tuple[int, ...]:
        """Token ids delivered so far."""
        return self.answer.token_ids[: self.produced] if self.answer else ()

    @property
    def done(self) -> bool:
        """Whether the whole answer is delivered."""
        return self.answer is not None and self.produced >= len(self.answer.token_ids)

    def complete_at(self, now_s: float) -> None:
        """Mark the prompt as complete; from now on its time is accounted for."""
        self.complete = True
        self.ledger["completed_at_s"] = self.accounted_until_s = now_s

    def admit(self, answer: ScriptedAnswer, now_s: float) -> None:
        """Add the request to the steps from now on."""
        self.answer = answer
        self.produced = len(self.request.output_ids)
        self.ledger["admitted_at_s"] = now_s
        self.ledger["prefill_chunks"] = 1
        self._account("queue_s", now_s)

    def begin_at(self, now_s: float) -> None:
        """Take the request from now on, as an engine does that is some way off."""
        for name in ("received_at_s", "completed_at_s", "admitted_at_s"):
            self.ledger[name] = now_s
        self.ledger["queue_s"] = 0.0

    def account_step(self, now_s: float, batch: int) -> None:
        """Account for one step with the request in its batch."""
        self._account("decode_s" if self.produced else "prefill_s", now_s)
        self.ledger["steps"] = self.ledger.get("steps", 0) + 1
        self.ledger["batch_size_sum"] = self.ledger.get("batch_size_sum", 0) + batch

    def _account(self, part: str, now_s: float) -> None:
        """Count the time since the last call as one part."""
        self.ledger[part] = self.ledger.get(part, 0.0) + now_s - self.accounted_until_s
        self.accounted_until_s = now_s

    def next_delta(self, now_s: float) -> Delta | None:
        """The next token; None if there is none."""
        answer, at = self.answer, self.produced
        if answer is None or at >= len(answer.token_ids):
            return None
        if "first_token_at_s" not in self.ledger:
            self.ledger["first_token_at_s"] = now_s
        self.produced = at + 1
        logprobs = answer.logprobs[at : at + 1]
        request_id = self.request.request_id
        return Delta(request_id, (answer.token_ids[at],), answer.pieces[at], logprobs=logprobs)

    def timed_delta(self, part: TimedPart, now_s: float) -> Delta:
        """The output of one instant of a timed answer."""
        self.ledger.setdefault("first_token_at_s", now_s)
        token_ids = part.token_ids or (0,) * part.tokens
        self.produced += len(token_ids)
        self.text += part.text
        return Delta(
            self.request.request_id,
            token_ids,
            part.text,
            logprobs=part.logprobs,
            reasoning=part.reasoning,
        )

    def close_with(self, rest: ScriptedAnswer, now_s: float) -> tuple[list[Delta], End]:
        """Last tokens and end, with the rest of the answer replaced by `rest`."""
        deltas: list[Delta] = []
        if rest.token_ids:
            text = "".join(rest.pieces)
            deltas = [Delta(self.request.request_id, rest.token_ids, text)]
            self.ledger.setdefault("first_token_at_s", now_s)
            self.produced += len(rest.token_ids)
        return deltas, self.end(rest, now_s)

    def end(self, answer: ScriptedAnswer, now_s: float) -> End:
        """End event of the request, as its answer ends."""
        figures = self.ledger
        figures["finished_at_s"] = now_s
        timed = self.answer.timed if self.answer is not None else None
        if self.complete and timed is None:
            running = "decode_s" if self.produced else "prefill_s"
            self._account(running if self.answer else "queue_s", now_s)
        ledger = Ledger(
            **figures,  # type: ignore[arg-type]  # counts and seconds by field name
            prompt_tokens=len(self.prompt_ids),
            output_tokens=self.produced,
        )
        if timed is not None:
            ledger = timed_ledger(ledger, timed, now_s)
        return End(
            self.request.request_id,
            answer.reason,
            ledger,
            answer.closed_early,
            answer.error,
            answer.stopped_by,
            answer.scores,
            unmet=UnmetAnswer(timed.text, timed.unmet) if timed and timed.unmet else None,
        )
