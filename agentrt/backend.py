"""The contract between the runtime and what serves generations.

Requests and events are plain frozen data that can cross a process. A backend is told of requests
and facts and answers with events; it delivers ONE `StepDone` a step, never an event a token.
All instants are seconds of the injected clock (`agentrt.clock`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import field
from typing import Literal, Protocol

from agentrt.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.errors import ErrorRecord
from agentrt.fact import fact
from agentrt.ids import NodeId, RequestId, RunId
from agentrt.sampling import Sampling
from agentrt.segments import JSON_ARRAY_FRAME, CallFrame, Segment, ToolSchema

OnLimit = Literal["raise", "close"]
FinishReason = Literal["stop", "length", "cancelled", "failed"]
KvHint = Literal["keep", "demote", "drop", "prefetch"]


@fact
class Capabilities:
    """What a backend can do; the runtime adapts to it.

    Attributes:
        backend: "embedded", "remote" or "scripted".
        model: Name for people and traces.
        prompt: Whether requests carry token ids or messages.
        codec: Fingerprint of the codec whose ids it takes; "" for messages.
        window_tokens: Context length; 0 when unknown.
        constraints: Kinds that it enforces. Any other is an error, never ignored.
        holes: Takes prompts that are not complete yet, and `fill`.
        hints: Obeys `hint`.
        seeds: The same seed gives the same tokens.
        logprobs: Reports them.
        closes: `on_limit="close"` ends a constrained output by its shortest valid end.
        batches: Serves several requests in one step.
        call_frame: How tool calls stand in the text of its deltas. Engines that report calls apart
            from the text write them into it in `JSON_ARRAY_FRAME`.
    """

    backend: str
    model: str
    prompt: Literal["tokens", "messages"]
    codec: str = ""
    window_tokens: int = 0
    constraints: frozenset[ConstraintKind] = frozenset()
    holes: bool = False
    hints: bool = False
    seeds: bool = True
    logprobs: bool = False
    closes: bool = False
    batches: bool = True
    call_frame: CallFrame = JSON_ARRAY_FRAME


@fact
class TokenPrompt:
    """A prompt as ids, up to the first hole.

    Attributes:
        token_ids: Known so far; they never change, the prompt only grows at its end.
        complete: False while a hole is open: `fill` brings more.
    """

    token_ids: tuple[int, ...]
    complete: bool = True


@fact
class MessagePrompt:
    """A complete prompt as segments, for engines that take messages.

    Attributes:
        segments: Whole messages, without holes.
        tools: Offered to the model.
    """

    segments: tuple[Segment, ...]
    tools: tuple[ToolSchema, ...] = ()


@fact
class GenerateRequest:
    """One generation.

    Attributes:
        request_id: Given by the runtime.
        run_id: The run it belongs to.
        node_id: The node it belongs to.
        site: Call site, under which durations are learned.
        prompt: What the model sees.
        sampling: How tokens are picked.
        constraint: What the output must look like; None leaves it free.
        on_limit: What happens at `max_tokens` and at the deadline.
        demanded: Whether somebody waits for it.
        deadline_at_s: When it must be done, or None.
        submitted_at_s: When the runtime sent it.
        keep_special: Report the text of special tokens too (tool-call frames).
    """

    request_id: RequestId
    run_id: RunId
    node_id: NodeId
    site: str
    prompt: TokenPrompt | MessagePrompt
    sampling: Sampling
    constraint: ConstraintSpec | None = None
    on_limit: OnLimit = "raise"
    demanded: bool = True
    deadline_at_s: float | None = None
    submitted_at_s: float = 0.0
    keep_special: bool = False


@fact
class Fill:
    """More of a prompt that was not complete.

    Attributes:
        token_ids: Appended to what the backend has.
        complete: True with the last part.
    """

    token_ids: tuple[int, ...]
    complete: bool


@fact
class RequestFacts:
    """What the order of waiting work depends on; sent when it changes.

    Attributes:
        request_id: Of which request.
        demanded: Somebody waits for it.
        run_started_at_s: When its run began.
        rest_s: Learned time that its run still needs after it, or 0.
        deadline_at_s: When it must be done, or None.
    """

    request_id: RequestId
    demanded: bool
    run_started_at_s: float = 0.0
    rest_s: float = 0.0
    deadline_at_s: float | None = None


@fact
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


@fact
class Delta:
    """What one step added to one request.

    Attributes:
        request_id: Which request.
        token_ids: New tokens, end token not included.
        text: New text that later tokens cannot change.
        forced_tokens: How many of the tokens the grammar forced.
        logprobs: One a token when asked for, else ().
    """

    request_id: RequestId
    token_ids: tuple[int, ...]
    text: str
    forced_tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()


@fact
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
        forced_tokens: Of those, forced by the grammar.
        steps: Steps it took part in.
        batch_size_sum: Sum over its steps of the sequences in the step.
        preemptions: How often it lost its pages.
        source: Whether the figures are measured, told by a remote engine, or inferred.
        cached_host_tokens: Tokens whose KV came back from the host's memory, at every admission.
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


@fact
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
    """

    request_id: RequestId
    reason: FinishReason
    ledger: Ledger = field(default_factory=Ledger)
    closed_early: bool = False
    error: ErrorRecord | None = None
    stopped_by: str = ""


@fact
class StepRecord:
    """One engine step.

    Attributes:
        index: Counts steps from 0.
        started_at_s: When planning began.
        ended_at_s: When its tokens were known.
        prefill_tokens: Prompt tokens computed.
        decode_tokens: Sequences that produced a token.
        requests: Every request in the batch.
    """

    index: int
    started_at_s: float
    ended_at_s: float
    prefill_tokens: int
    decode_tokens: int
    requests: tuple[RequestId, ...]


@fact
class StepDone:
    """Everything that one engine step changed.

    Attributes:
        step: Its record; None for a delivery outside a step (a cancel, a rejection).
        deltas: Tokens by request.
        ends: Requests that are over.
        free_pages: KV pages free now.
        evictable_pages: Pages that the tree can give up.
    """

    step: StepRecord | None
    deltas: tuple[Delta, ...]
    ends: tuple[End, ...]
    free_pages: int = 0
    evictable_pages: int = 0


@fact
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


class Backend(Protocol):
    """What serves generations. All methods but `start`, `events` and `aclose` return at once."""

    @property
    def capabilities(self) -> Capabilities:
        """Known once `start` has returned."""
        ...

    async def start(self) -> None:
        """Load or connect.

        Raises:
            EngineUnavailable: It cannot be reached or started.
            ModelInvalid: Its model cannot be loaded.
        """
        ...

    def submit(self, request: GenerateRequest) -> None:
        """Take a request; its `End` comes through `events`, whatever happens."""
        ...

    def fill(self, request_id: RequestId, fill: Fill) -> None:
        """Append to the prompt of a request that was submitted incomplete."""
        ...

    def facts(self, facts: tuple[RequestFacts, ...]) -> None:
        """What the order of waiting work depends on has changed."""
        ...

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """Stop a request at the next step; its `End` says `cancelled`."""
        ...

    def hint(self, token_ids: tuple[int, ...], hint: KvHint, until_s: float | None = None) -> None:
        """Say what will become of a prefix. Never needed for correctness.

        Args:
            token_ids: The prefix.
            hint: `keep` it longest, `demote` it to slower memory, `drop` it first, `prefetch` it
                from slower memory.
            until_s: When a `keep` ends; None keeps it for good.
        """
        ...

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Say what constraints will be asked for. Never needed for correctness."""
        ...

    def events(self) -> AsyncIterator[BackendEvent]:
        """Everything that happens, in order; one reader."""
        ...

    async def aclose(self) -> None:
        """End the engine; requests under way end as cancelled. Idempotent."""
        ...
