"""The contract between the runtime and an engine.

Requests and events are plain frozen data that can cross a process. A backend receives requests,
updates of scheduling info and aborts, and returns events: ONE `StepDone` a step, never an event a
token. All instants are seconds of the injected clock (`agentrt.base.clock`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.prices import Prices
from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import JSON_ARRAY_FRAME, CallFrame, Segment, ThinkFrame, ToolSchema
from agentrt.protocol.step_output import BackendEvent

OnLimit = Literal["raise", "close"]
KvHint = Literal["keep", "demote", "drop", "prefetch"]


@record
class Capabilities:
    """Features of a backend; the runtime adapts to them.

    Attributes:
        backend: "embedded", "remote" or "scripted".
        model: Name for people and traces.
        prompt: Whether requests carry token ids or messages.
        codec: Fingerprint of the codec of its ids; "" for messages.
        window_tokens: Context length; 0 if unknown.
        constraints: Kinds of structured output to which it holds the model.
        checked: Kinds for which the model is only asked; the whole output is checked before any of
            it is reported (`End.unmet`). Any kind in neither is an error, never ignored.
        holes: Whether it takes incomplete prompts and constraints, and `fill_hole`.
        hints: Whether it obeys `hint`.
        seeds: Whether the same seed gives the same tokens.
        logprobs: Whether it reports log-probabilities.
        closes: Whether `on_limit="close"` ends a constrained output by its shortest valid end.
        batches: Whether it serves several requests in one step.
        call_frame: Frame of tool calls in the text of its deltas. Engines that report calls
            separately write them into the text in `JSON_ARRAY_FRAME`.
        kv_tokens: Capacity of its KV cache in tokens; 0 if unknown.
        kv_bytes: Memory of its KV cache in bytes, with scales of quantised KV and the KV of a draft
            model; 0 if unknown.
        host_kv_tokens: Capacity of its KV offload tier in tokens; 0 without one.
        page_tokens: Tokens of a KV page; 0 if unknown.
        slots: Requests that it computes at once; 0 if unknown.
        thinking: Frame of its model's reasoning within `thinking_tokens`; None if it cannot hold a
            thinking budget in its text.
        thinks: Whether it holds a thinking budget and reports the reasoning apart. Asking a backend
            for one is an error if it has neither this nor `thinking`.
        scores: Whether it takes `scored` requests.
        cache_salts: Whether it keeps prefixes of requests with different `cache_salt` apart. A
            salt for any other backend is an error, never ignored.
        resumes: Whether it goes on behind the `output_ids` of a request. Else it writes a lost
            output anew, which is compared with the first one.
        resumes_state: Whether it does so for requests that keep a state too
            (`GenerateRequest.keeps_state`).
        prefills_ahead: Whether it takes `ahead` requests.
        adapters: Names of its LoRA adapters; a request names one.
        prices: Prices of its tokens and its time, the highest if several engines may serve a
            request; None if they are not known.
    """

    backend: str
    model: str
    prompt: Literal["tokens", "messages"]
    codec: str = ""
    window_tokens: int = 0
    constraints: frozenset[ConstraintKind] = frozenset()
    checked: frozenset[ConstraintKind] = frozenset()
    holes: bool = False
    hints: bool = False
    seeds: bool = True
    logprobs: bool = False
    closes: bool = False
    batches: bool = True
    call_frame: CallFrame = JSON_ARRAY_FRAME
    kv_tokens: int = 0
    host_kv_tokens: int = 0
    thinking: ThinkFrame | None = None
    thinks: bool = False
    scores: bool = False
    cache_salts: bool = False
    resumes: bool = False
    resumes_state: bool = True
    prefills_ahead: bool = False
    prices: Prices | None = None
    page_tokens: int = 0
    slots: int = 0
    kv_bytes: int = 0
    adapters: tuple[str, ...] = ()


@record
class TokenPrompt:
    """A prompt as ids, up to the first hole.

    Attributes:
        token_ids: Ids known so far. They never change; the prompt only grows at its end.
        complete: False while a hole of the prompt or of the constraint is open and `fill_hole`
            will bring more.
    """

    token_ids: tuple[int, ...]
    complete: bool = True


@record
class MessagePrompt:
    """A prompt as segments, for engines that take messages and apply a chat template.

    Attributes:
        segments: Whole messages, without holes if it is complete.
        tools: Tools offered to the model.
        complete: False while a hole of the prompt or of the constraint is open and `fill_hole`
            will bring the segments anew.
    """

    segments: tuple[Segment, ...]
    tools: tuple[ToolSchema, ...] = ()
    complete: bool = True


@record
class SchedulingInfo:
    """Scheduling info of a request; sent with the request and when it changes.

    The values of the run hold at `as_of_s`; a reader may add the waiting time since then.

    Attributes:
        request_id: The request.
        demanded: Whether the program awaits its result.
        deadline_at_s: Deadline of its end, or None.
        rank_s: Upward rank: learned time from its start to the end of its run, along the longest
            path.
        output_tokens: Learned length of its output; 0 if unknown.
        run_started_at_s: Start of its run.
        rest_s: Learned remaining service of its run, this request included; 0 if unknown.
        run_id: The run.
        tenant: Tenant charged for the run; "" is one tenant like any other.
        tenant_debt_s: Service of the tenant beyond its fair share; negative if it is owed service.
        priority: Priority of the run; a higher one goes first within a tenant.
        attained_s: Attained service of its run.
        waited_s: Time for which some runnable node of its run has waited.
        waiting: 1 if such a node waits now, and `waited_s` grows; else 0.
        path_p50_s: Median of the learned remaining time of its run.
        path_p90_s: 90th percentile of the same time.
        true_rest_s: True remaining service of its run, known in a replay only; None otherwise.
        as_of_s: Instant of these values.
    """

    request_id: RequestId
    demanded: bool
    deadline_at_s: float | None = None
    rank_s: float = 0.0
    output_tokens: float = 0.0
    run_started_at_s: float = 0.0
    rest_s: float = 0.0
    run_id: RunId = RunId("")
    tenant: str = ""
    tenant_debt_s: float = 0.0
    priority: int = 0
    attained_s: float = 0.0
    waited_s: float = 0.0
    waiting: int = 0
    path_p50_s: float = 0.0
    path_p90_s: float = 0.0
    true_rest_s: float | None = None
    as_of_s: float = 0.0


@record
class GenerateRequest:
    """One generation, as sent to an engine.

    Attributes:
        request_id: Id given by the runtime.
        run_id: The run.
        node_id: The node.
        site: Call site, the key of learned durations.
        prompt: Prompt of the model.
        sampling: Sampling parameters.
        constraint: Constraint of a structured output; None leaves the output free.
        on_limit: Behaviour at `max_tokens` and at the deadline.
        demanded: Whether the program awaits its result.
        deadline_at_s: Deadline of its end, or None.
        submitted_at_s: Instant of sending.
        keep_special: Report the text of special tokens too (tool-call frames).
        info: Scheduling info, for its priority among waiting requests; None without a scheduler.
        thinking_tokens: Thinking budget: maximum number of reasoning tokens before the constrained
            output, in the frame of the capabilities; None leaves it to the model whether it thinks.
        scored: For a `choice`: score every option at once instead of decoding one.
        cache_salt: KV is shared only among requests of the same salt.
        adapter: Name of the LoRA adapter that computes it, and among whose requests alone KV is
            shared; "" is the model as it is.
        output_ids: Output that an engine produced before it was lost. The request goes on behind
            it, with the tokens that would have come next; deltas and text begin there.
        ahead: Compute the beginning of a prompt that is expected, in steps that compute nothing
            else and in free pages, which are the first to be evicted. The prompt is incomplete and
            takes no fills, and nothing is produced. The request ends with `stop`; of its ledger,
            `prompt_tokens` are those with KV by then.
        traceparent: Span of the node, for an engine that has spans of its own; of its program as
            long as the prompt has holes. "" if the run is not recorded.
        gives_back: Give the request back (`BackendDown`) if an attempt breaks off that may have
            cost something, instead of making another one: money is reserved for each.
        replayed_tokens: Length of the output in a replay: free text ends there by `stop`, as if
            the model had ended it. Only sampling looks at it, no policy. 0 in all other requests.
    """

    request_id: RequestId
    run_id: RunId
    node_id: NodeId
    site: str
    prompt: TokenPrompt | MessagePrompt
    sampling: SamplingParams
    constraint: ConstraintSpec | None = None
    on_limit: OnLimit = "raise"
    demanded: bool = True
    deadline_at_s: float | None = None
    submitted_at_s: float = 0.0
    keep_special: bool = False
    info: SchedulingInfo | None = None
    thinking_tokens: int | None = None
    scored: bool = False
    cache_salt: str = ""
    output_ids: tuple[int, ...] = ()
    ahead: bool = False
    replayed_tokens: int = 0
    gives_back: bool = False
    traceparent: str = ""
    adapter: str = ""

    @property
    def keeps_state(self) -> bool:
        """Whether its next token depends on which ids are output, by a grammar or penalties."""
        sampling = self.sampling
        penalties = sampling.presence_penalty or sampling.frequency_penalty
        return self.constraint is not None or bool(penalties)


@record
class HoleFill:
    """The next part of an incomplete request.

    Attributes:
        token_ids: Ids appended to the prompt.
        complete: True with the last part.
        constraint: The constraint with every hole filled; None leaves it as it is.
        segments: All segments of a prompt of messages as they are known now, in place of those
            before; () for token ids.
        traceparent: Span of the node, with the last part; "" if the run is not recorded.
    """

    token_ids: tuple[int, ...]
    complete: bool
    constraint: ConstraintSpec | None = None
    segments: tuple[Segment, ...] = ()
    traceparent: str = ""


@record
class PrefixHint:
    """The expected use of a prefix in the KV cache.

    Attributes:
        token_ids: The prefix.
        hint: `keep` it longest, `demote` it to the KV offload tier, evict it first (`drop`),
            `prefetch` it from the offload tier.
        until_s: End of a `keep`; None keeps it for good. With `prefetch`: end of the `keep` that
            follows; None does not keep it.
        from_tokens: A `drop` leaves so many of the first tokens alone; other prompts may still
            continue from those.
        cache_salt: Salt of the requests that the prefix belongs to.
        adapter: Their adapter, or "".
    """

    token_ids: tuple[int, ...]
    hint: KvHint
    until_s: float | None = None
    from_tokens: int = 0
    cache_salt: str = ""
    adapter: str = ""


class Backend(Protocol):
    """An engine as seen by the runtime. All methods but `start` and `aclose` return at once."""

    @property
    def capabilities(self) -> Capabilities:
        """Features, known once `start` has returned."""
        ...

    async def start(self) -> None:
        """Load the model, or connect.

        Raises:
            EngineUnavailable: The engine cannot be reached or started.
            ModelInvalid: The model cannot be loaded.
        """
        ...

    def submit(self, request: GenerateRequest) -> None:
        """Submit a request; its `End` comes through `events`, whatever happens."""
        ...

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to a request that was submitted incomplete."""
        ...

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Update the scheduling info of requests; one that has ended is ignored."""
        ...

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """Abort a request at the next step; the reason of its `End` is `cancelled`."""
        ...

    def hint(self, hint: PrefixHint) -> None:
        """Announce the future use of a prefix in the KV cache. Never needed for correctness."""
        ...

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Compile the grammars of expected constraints. Never needed for correctness."""
        ...

    def events(self) -> AsyncIterator[BackendEvent]:
        """All events in order, for one reader."""
        ...

    async def aclose(self) -> None:
        """End the engine; requests in flight end as cancelled. Idempotent."""
        ...
