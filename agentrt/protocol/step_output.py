"""Output of a backend: one `StepDone` a step, with all its tokens, ends and admissions.

Plain frozen data that can cross a process. All instants are seconds of the injected clock.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RequestId
from agentrt.base.record import record

if TYPE_CHECKING:
    from decimal import Decimal

FinishReason = Literal["stop", "length", "cancelled", "failed"]

DraftSource = Literal["grammar", "site", "sibling", "prompt", "model", "eagle"]
"""Source of drafted tokens: bytes that a grammar forces, earlier outputs of the same call site,
unfinished outputs of it, the prompt and output of the request itself, a draft model, or a head on
the states of the model itself."""


@record
class TokenLogprob:
    """Log-probability of one token that was produced.

    Attributes:
        token_id: The token.
        logprob: Natural logarithm, after temperature and penalties; 0.0 with `forced`.
        top: The likeliest alternatives, (token id, log-probability).
        forced: Whether the grammar left no choice.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    forced: bool = False


@record
class Delta:
    """Output that one step added to one request: the unit of streaming.

    Attributes:
        request_id: The request.
        token_ids: New tokens, end token not included.
        text: New text that later tokens cannot change (incremental detokenization).
        forced_tokens: Number of tokens that the grammar forced (jump-forward), as tokens or as
            bytes spelled as guessed: they took no step of their own.
        logprobs: One entry a token if asked for, else ().
        reasoning: Reasoning that a remote engine reports separately; not part of `text`.
    """

    request_id: RequestId
    token_ids: tuple[int, ...]
    text: str
    forced_tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    reasoning: str = ""


@record
class DraftCount:
    """Tokens of one request that were computed as drafts from one source.

    Attributes:
        source: Source of the drafts.
        accepted_tokens: Tokens that were drawn as drafted; they took no step of their own.
        rejected_tokens: Tokens that were computed in vain.
    """

    source: DraftSource
    accepted_tokens: int = 0
    rejected_tokens: int = 0


@record
class Ledger:
    """Account of the time and the tokens of one request, measured by the backend.

    `queue_s + kv_reload_s + prefill_s + decode_s + constraint_s` is the time from `received_at_s`
    to `finished_at_s` less the time spent waiting for a hole.

    Attributes:
        received_at_s: Instant at which the backend had the request.
        completed_at_s: Instant at which its prompt was complete.
        admitted_at_s: Instant at which its first token was scheduled in a step.
        first_token_at_s: Instant of its first output token; 0.0 without any.
        finished_at_s: Instant of its end.
        queue_s: Waiting with a complete prompt, preemption included.
        kv_reload_s: Loading KV back from the offload tier.
        prefill_s: Steps that computed its prompt.
        decode_s: Steps that produced its tokens.
        constraint_s: Waiting for its grammar or grammar bitmask.
        prompt_tokens: Length of the prompt.
        cached_tokens: Prompt tokens found by prefix match in the radix tree.
        recomputed_tokens: Tokens computed again after a preemption.
        prefill_chunks: Number of steps that computed prompt tokens (chunked prefill).
        output_tokens: Tokens produced.
        forced_tokens: Output tokens forced by the grammar, as in `Delta`.
        steps: Number of steps with the request in the batch.
        batch_size_sum: Sum of the batch sizes of these steps.
        preemptions: Number of times its pages were taken away.
        source: Whether the figures are measured, reported by a remote engine, or inferred.
        cached_host_tokens: Tokens loaded back from the offload tier, over all admissions.
        thinking_tokens: Output tokens before the answer: reasoning and its frame.
        retried_tokens: Tokens of attempts that broke off with a remote engine, which produced them
            again; not part of `output_tokens`.
        drafts: Drafted tokens by source; sources without any are left out.
        ahead_tokens: Prompt tokens that were computed, or found in the cache, while a part of the
            prompt was pending.
        is_estimated: Whether the engine has not reported all tokens, so that they are estimated.
        retried_prompt_tokens: Prompt tokens of such attempts; not part of `prompt_tokens`.
        cost_pico: Cost by the prices of the engine, in millionths of a millionth of `currency`.
        retried_cost_pico: Part of the cost that was paid for attempts that broke off.
        currency: Currency of the cost; "" if the engine has no prices.
        is_cached: Whether an answer of the response cache stands in for all of it.
        saved_pico: Cost of that answer when an engine computed it.
        server_queue_s: Part of `queue_s` that a remote engine reports for its own queue, or 0.0.
        warmed_tokens: Prompt tokens that warm-ups at a remote engine computed while a part of the
            prompt was pending; `ahead_tokens` are those that the request found again.
        expert_tokens: Tokens of each expert by layer with experts; () if they were not counted.
        expert_hits: Experts in fast memory when its steps needed them; 0 unless it is bounded.
        expert_misses: Experts that were not there, likewise.
    """

    received_at_s: float = 0.0
    completed_at_s: float = 0.0
    admitted_at_s: float = 0.0
    first_token_at_s: float = 0.0
    finished_at_s: float = 0.0
    queue_s: float = 0.0
    kv_reload_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    constraint_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    recomputed_tokens: int = 0
    prefill_chunks: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    steps: int = 0
    batch_size_sum: int = 0
    preemptions: int = 0
    source: Literal["measured", "engine_reported", "inferred"] = "measured"
    cached_host_tokens: int = 0
    thinking_tokens: int = 0
    retried_tokens: int = 0
    drafts: tuple[DraftCount, ...] = ()
    ahead_tokens: int = 0
    is_estimated: bool = False
    retried_prompt_tokens: int = 0
    cost_pico: int = 0
    retried_cost_pico: int = 0
    currency: str = ""
    is_cached: bool = False
    saved_pico: int = 0
    server_queue_s: float = 0.0
    warmed_tokens: int = 0
    expert_tokens: tuple[tuple[int, ...], ...] = ()
    expert_hits: int = 0
    expert_misses: int = 0

    @property
    def cost(self) -> Decimal | None:
        """Cost in units of `currency`, exactly; None if the engine has no prices."""
        from agentrt.base.money import decimal_of

        return decimal_of(self.cost_pico) if self.currency else None

    @property
    def device_s(self) -> float:
        """Share of the steps that it took part in, in seconds.

        0 if even the last token of its prompt was cached: it joined an equal request in flight.
        """
        if 0 < self.prompt_tokens <= self.cached_tokens:
            return 0.0
        steps_s = self.prefill_s + self.decode_s
        return steps_s * self.steps / self.batch_size_sum if self.batch_size_sum else steps_s

    @property
    def late_tokens(self) -> int:
        """Prompt tokens that were left to compute when all of the prompt was known."""
        return self.prompt_tokens - max(self.cached_tokens, self.ahead_tokens)


@record
class OptionScore:
    """Log-probability of one option of a choice.

    Attributes:
        logprob: Natural logarithm of the probability that the model writes exactly this option and
            ends: the sum over its tokens, the end token included.
        tokens: Number of these tokens.
    """

    logprob: float
    tokens: int


@record
class ConstraintUse:
    """Use of a constraint by a remote engine.

    Attributes:
        form: Form in which it was sent.
        enforced: Whether the server holds the model to all of it; else the answer was checked here
            as a whole.
        dropped: Keywords of its schema that were not sent, and only checked.
        closing_characters: Characters at the end of the output that no model wrote: the shortest
            valid end, which the matcher found here.
    """

    form: str
    enforced: bool
    dropped: tuple[str, ...] = ()
    closing_characters: int = 0


@record
class UnmetAnswer:
    """An answer of a remote engine that does not obey its constraint; no delta has any of it.

    Attributes:
        text: The whole answer.
        reason: The failure, in words for the model.
    """

    text: str
    reason: str


@record
class End:
    """A request is over.

    Attributes:
        request_id: The request.
        reason: `stop` (complete, or a stop string), `length`, `cancelled` or `failed`.
        ledger: Account of its time and tokens.
        closed_early: Whether the grammar was driven to its shortest valid end.
        error: Error of a request that failed.
        stopped_by: The stop string that ended it, or "". The ids of the deltas include the token
            that completed the stop string; their text ends before it.
        scores: One score an option of a `scored` request, in their order; else ().
        constraint: Use of the constraint by a remote engine; None for any other engine.
        unmet: The answer, if it was checked here and does not obey; the reason is `stop`.
        not_sent: Sampling parameters that the model of a remote engine refuses, and chooses itself.
        server: Address of the remote engine that ended it; "" for any other engine.
        provider: Name of the provider in OpenTelemetry's conventions; "" if unknown.
        by_fallback: Whether a fallback of the engine gave the answer.
        prompt: How a remote engine was sent the prompt: `tokens` or `messages`; "" for any other.
        not_warmed: Why a remote engine did not compute the known part of the prompt ahead, or "".
        answer_id: Id that a remote engine gave its answer, or "".
        model: Name of the model by which it answered, in the server's own words, or "".
    """

    request_id: RequestId
    reason: FinishReason
    ledger: Ledger = field(default_factory=Ledger)
    closed_early: bool = False
    error: ErrorRecord | None = None
    stopped_by: str = ""
    scores: tuple[OptionScore, ...] = ()
    constraint: ConstraintUse | None = None
    unmet: UnmetAnswer | None = None
    not_sent: tuple[str, ...] = ()
    server: str = ""
    by_fallback: bool = False
    prompt: Literal["", "tokens", "messages"] = ""
    not_warmed: str = ""
    provider: str = ""
    answer_id: str = ""
    model: str = ""


@record
class StepRecord:
    """One engine step.

    Attributes:
        index: Number of the step, from 0.
        started_at_s: Start of scheduling.
        ended_at_s: Instant at which its tokens were known.
        prefill_tokens: Prompt tokens computed.
        decode_tokens: Sequences that produced a token.
        requests: Requests in the batch.
        kv_tokens: Tokens of KV read by its attention, shared ones counted for each sequence.
        waiting: Requests in the waiting queue that were not scheduled.
        extra_rows: Tokens of decoding sequences beyond one each: drafts, forced runs, KV made anew.
    """

    index: int
    started_at_s: float
    ended_at_s: float
    prefill_tokens: int
    decode_tokens: int
    requests: tuple[RequestId, ...]
    kv_tokens: int = 0
    waiting: int = 0
    extra_rows: int = 0


PASSED_OVER = {
    "pages": "too little memory",
    "slots": "too many running at once",
    "budget": "the step's tokens given to others",
    "prefix": "another one computing the same prefix",
    "decodes": "more urgent outputs about to end",
    "in_flight": "as many requests with the engine as it serves at once",
    "rate": "the rate of requests used up",
    "placement": "the worker that has its prefix being full",
    "outage": "no worker of the fleet in service",
}
"""Causes for leaving a request in the waiting queue, in words."""

HELD_BACK = ("in_flight", "rate", "placement", "outage")
"""Causes of requests that are held back before a remote engine, in rounds of its queue."""


def rounds_in_words(cause: str, count: int) -> str:
    """A number of times that a request was left waiting: steps, or rounds of our own queue."""
    return f"{count} {'round' if cause in HELD_BACK else 'step'}{'s' if count > 1 else ''}"


@record
class Admission:
    """Admission of a request into a step's batch, or to a remote engine, with its reasons.

    Attributes:
        request_id: The request.
        at_s: Instant.
        policy: Policy that decided the order.
        waited_s: Time since its prompt was complete, or since it was preempted.
        position: Number of requests admitted before it in that step.
        waiting: Number of requests left in the waiting queue.
        passed_over: Number of earlier steps that left it waiting, by cause: see `PASSED_OVER`. Of a
            remote engine: of rounds in which others were sent to it.
        terms: Terms of its priority key, by name.
        worker: Address of the worker of a fleet that it is sent to; "" for any other engine.
    """

    request_id: RequestId
    at_s: float
    policy: str
    waited_s: float
    position: int
    waiting: int
    passed_over: tuple[tuple[str, int], ...] = ()
    terms: tuple[tuple[str, float], ...] = ()
    worker: str = ""


@record
class StepDone:
    """Everything that one engine step changed.

    Attributes:
        step: Record of the step; None for a delivery outside a step (an abort, a rejection).
        deltas: New tokens by request.
        ends: Requests that ended.
        free_pages: Free KV pages now.
        evictable_pages: KV pages that the radix tree can evict.
        admissions: Requests admitted into the step's batch, or sent to a remote engine.
        kv_room_tokens: KV memory of a remote engine less what other clients hold, if it has become
            known or has changed; else 0.0.
    """

    step: StepRecord | None
    deltas: tuple[Delta, ...]
    ends: tuple[End, ...]
    free_pages: int = 0
    evictable_pages: int = 0
    admissions: tuple[Admission, ...] = ()
    kv_room_tokens: float = 0.0


@record
class BackendDown:
    """The backend lost its engine; this is the only end of the requests in `lost`.

    Attributes:
        error: Cause.
        lost: Requests in flight.
        restarting: Whether the backend restarts and takes requests again by itself.
        own_fault: Whether it ended by an error of its own, which a request may have caused.
    """

    error: ErrorRecord
    lost: tuple[RequestId, ...]
    restarting: bool
    own_fault: bool = False


BackendEvent = StepDone | BackendDown
