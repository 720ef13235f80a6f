"""What a backend tells: one `StepDone` a step, with all its tokens, ends and admissions.

Plain frozen data that can cross a process. All instants are seconds of the injected clock.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RequestId
from agentrt.base.record import record

FinishReason = Literal["stop", "length", "cancelled", "failed"]


@record
class TokenLogprob:
    """Log-probability of one token that was produced.

    Attributes:
        token_id: The token.
        logprob: Natural logarithm, after temperature and penalties; 0.0 with `forced`.
        top: The likeliest alternatives, (token id, log-probability).
        forced: The grammar left no choice.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    forced: bool = False


@record
class Delta:
    """What one step added to one request.

    Attributes:
        request_id: Which request.
        token_ids: New tokens, end token not included.
        text: New text that later tokens cannot change.
        forced_tokens: How many of the tokens the grammar forced, or forced in bytes that were
            spelled as guessed: they took no step of their own.
        logprobs: One a token when asked for, else ().
    """

    request_id: RequestId
    token_ids: tuple[int, ...]
    text: str
    forced_tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()


@record
class Ledger:
    """Where the time and the tokens of one request went, measured by the backend.

    `queue_s + kv_reload_s + prefill_s + decode_s + constraint_s` is the time from `received_at_s`
    to `finished_at_s` less the time it waited for a hole.

    Attributes:
        received_at_s: The backend had the request.
        completed_at_s: Its prompt was complete.
        admitted_at_s: Its first token was put in a step.
        first_token_at_s: Its first output token was there; 0.0 when there was none.
        finished_at_s: It ended.
        queue_s: Waiting with a complete prompt, preemption included.
        kv_reload_s: Bringing KV back from a lower tier.
        prefill_s: In steps that computed its prompt.
        decode_s: In steps that produced its tokens.
        constraint_s: Waiting for its grammar or mask.
        prompt_tokens: Length of the prompt.
        cached_tokens: Prompt tokens found in the radix tree.
        recomputed_tokens: Computed again after a preemption.
        prefill_chunks: Steps that computed prompt tokens.
        output_tokens: Tokens produced.
        forced_tokens: Of those, forced by the grammar; as in `Delta`.
        steps: Steps it took part in.
        batch_size_sum: Sum over its steps of the sequences in the step.
        preemptions: How often it lost its pages.
        source: Whether the figures are measured, told by a remote engine, or inferred.
        cached_host_tokens: Tokens whose KV came back from the host's memory, at every admission.
        thinking_tokens: Of its output, those before the answer: thought and its frame.
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


@record
class OptionScore:
    """How likely one option of a choice is.

    Attributes:
        logprob: Natural logarithm of the probability that the model writes just this option and
            ends: the sum over its tokens, the end token with them.
        tokens: How many those are.
    """

    logprob: float
    tokens: int


@record
class End:
    """A request is over.

    Attributes:
        request_id: Which request.
        reason: `stop` (complete, or a stop string), `length`, `cancelled` or `failed`.
        ledger: Its account.
        closed_early: The grammar was driven to its shortest valid end.
        error: Set with `failed`.
        stopped_by: The stop string that ended it, or "". The ids of the deltas run on to the end of
            the token that completed it, their text ends before it.
        scores: One an option of a `scored` request, in their order; else ().
    """

    request_id: RequestId
    reason: FinishReason
    ledger: Ledger = field(default_factory=Ledger)
    closed_early: bool = False
    error: ErrorRecord | None = None
    stopped_by: str = ""
    scores: tuple[OptionScore, ...] = ()


@record
class StepRecord:
    """One engine step.

    Attributes:
        index: Counts steps from 0.
        started_at_s: When planning began.
        ended_at_s: When its tokens were known.
        prefill_tokens: Prompt tokens computed.
        decode_tokens: Sequences that produced a token.
        requests: Every request in the batch.
        kv_tokens: Tokens whose KV its attention read, those shared by several counted for each.
        waiting: Requests that were there and had no place in it.
    """

    index: int
    started_at_s: float
    ended_at_s: float
    prefill_tokens: int
    decode_tokens: int
    requests: tuple[RequestId, ...]
    kv_tokens: int = 0
    waiting: int = 0


PASSED_OVER = {
    "pages": "too little memory",
    "slots": "too many running at once",
    "budget": "the step's tokens given to others",
    "prefix": "another one computing the same prefix",
}
"""Why a request went on waiting for a place in a step, in words."""


@record
class Admission:
    """A request got its place in a step, and why it got it then.

    Attributes:
        request_id: Which.
        at_s: When.
        policy: By whose order.
        waited_s: Since its prompt was complete, or since it lost its pages.
        place: How many others were served before it in that step.
        waiting: How many others went on waiting.
        passed_over: In how many steps before it went on waiting, by cause: see `PASSED_OVER`.
        terms: What its place was worked out from, by name.
    """

    request_id: RequestId
    at_s: float
    policy: str
    waited_s: float
    place: int
    waiting: int
    passed_over: tuple[tuple[str, int], ...] = ()
    terms: tuple[tuple[str, float], ...] = ()


@record
class StepDone:
    """Everything that one engine step changed.

    Attributes:
        step: Its record; None for a delivery outside a step (a cancel, a rejection).
        deltas: Tokens by request.
        ends: Requests that are over.
        free_pages: KV pages free now.
        evictable_pages: Pages that the tree can give up.
        admissions: Requests that got a place in it.
    """

    step: StepRecord | None
    deltas: tuple[Delta, ...]
    ends: tuple[End, ...]
    free_pages: int = 0
    evictable_pages: int = 0
    admissions: tuple[Admission, ...] = ()


@record
class BackendDown:
    """The backend lost its engine; `lost` will never end otherwise.

    Attributes:
        error: Why.
        lost: Requests that were under way.
        restarting: Whether it takes requests again by itself.
    """

    error: ErrorRecord
    lost: tuple[RequestId, ...]
    restarting: bool


BackendEvent = StepDone | BackendDown
