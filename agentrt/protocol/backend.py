"""The contract between the runtime and what serves generations.

Requests and events are plain frozen data that can cross a process. A backend is told of requests
and facts and answers with events; it delivers ONE `StepDone` a step, never an event a token.
All instants are seconds of the injected clock (`agentrt.base.clock`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import JSON_ARRAY_FRAME, CallFrame, Segment, ThinkFrame, ToolSchema
from agentrt.protocol.step_output import (
    Admission,
    BackendDown,
    BackendEvent,
    Delta,
    End,
    FinishReason,
    Ledger,
    OptionScore,
    StepDone,
    StepRecord,
    TokenLogprob,
)

__all__ = [
    "Admission",
    "Backend",
    "BackendDown",
    "BackendEvent",
    "Capabilities",
    "Delta",
    "End",
    "FinishReason",
    "GenerateRequest",
    "HoleFill",
    "KvHint",
    "Ledger",
    "MessagePrompt",
    "OnLimit",
    "OptionScore",
    "SchedulingInfo",
    "StepDone",
    "StepRecord",
    "TokenLogprob",
    "TokenPrompt",
]

OnLimit = Literal["raise", "close"]
KvHint = Literal["keep", "demote", "drop", "prefetch"]


@record
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
        kv_tokens: Tokens whose KV it can hold at once; 0 when unknown.
        host_kv_tokens: Tokens whose KV its slower tier can hold; 0 when there is none.
        thinking: How its model thinks within `thinking_tokens`; None when it cannot be held to
            a number of tokens, so that asking for it is an error.
        scores: Takes `scored` requests.
        cache_salts: Keeps prefixes of requests with different `cache_salt` apart. A salt for any
            other backend is an error, never ignored.
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
    kv_tokens: int = 0
    host_kv_tokens: int = 0
    thinking: ThinkFrame | None = None
    scores: bool = False
    cache_salts: bool = False


@record
class TokenPrompt:
    """A prompt as ids, up to the first hole.

    Attributes:
        token_ids: Known so far; they never change, the prompt only grows at its end.
        complete: False while a hole is open: `fill` brings more.
    """

    token_ids: tuple[int, ...]
    complete: bool = True


@record
class MessagePrompt:
    """A complete prompt as segments, for engines that take messages.

    Attributes:
        segments: Whole messages, without holes.
        tools: Offered to the model.
    """

    segments: tuple[Segment, ...]
    tools: tuple[ToolSchema, ...] = ()


@record
class SchedulingInfo:
    """What the order of waiting work depends on; sent with the request and when it changes.

    What is said of the run holds at `told_at_s`; who reads it later may let its waiting grow.

    Attributes:
        request_id: Of which request.
        demanded: Somebody waits for it.
        deadline_at_s: When it must be done, or None.
        rank_s: Learned time from its start to the end of its run, along the longest path.
        output_tokens: Learned length of its output; 0 when nothing is known.
        run_started_at_s: When its run began.
        rest_s: Learned service that its run still needs, this request included; 0 when nothing is
            known.
        run_id: The run it belongs to.
        tenant: Who pays for the run; "" is one tenant like any other.
        tenant_debt_s: Service that the tenant had beyond its fair share; negative when it is owed.
        priority: Of the run; a higher one goes first within a tenant.
        attained_s: Service that its run has had.
        waited_s: How long runnable nodes of its run have waited.
        waiting: How many of them wait now: `waited_s` grows by so many seconds a second.
        path_p50_s: Median of the learned time that its run still needs.
        path_p90_s: The same time, which nine of ten runs stay within.
        true_rest_s: What its run really needs, where a replay knows; None elsewhere.
        told_at_s: When this was so.
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
    told_at_s: float = 0.0


@record
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
        facts: What its place among waiting requests depends on; None where nobody schedules.
        thinking_tokens: Most tokens of thought before the output that the constraint is about,
            in the frame that the capabilities name; None leaves it to the model whether it thinks.
        scored: Of a `choice`: every option is scored at once, instead of decoding one.
        cache_salt: Requests share KV only with requests of the same salt.
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
    facts: SchedulingInfo | None = None
    thinking_tokens: int | None = None
    scored: bool = False
    cache_salt: str = ""


@record
class HoleFill:
    """More of a prompt that was not complete.

    Attributes:
        token_ids: Appended to what the backend has.
        complete: True with the last part.
    """

    token_ids: tuple[int, ...]
    complete: bool


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

    def fill(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to the prompt of a request that was submitted incomplete."""
        ...

    def facts(self, facts: tuple[SchedulingInfo, ...]) -> None:
        """What the order of waiting work depends on has changed."""
        ...

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """Stop a request at the next step; its `End` says `cancelled`."""
        ...

    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None = None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None:
        """Say what will become of a prefix. Never needed for correctness.

        Args:
            token_ids: The prefix.
            hint: `keep` it longest, `demote` it to slower memory, `drop` it first, `prefetch` it
                from slower memory.
            until_s: When a `keep` ends; None keeps it for good. With `prefetch`: until when what
                came is kept; None does not.
            from_tokens: A `drop` is of what stands behind so many of its tokens; others may still
                go on from those.
            cache_salt: Salt of the requests that the prefix belongs to.
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
