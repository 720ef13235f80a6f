"""One token stream in the engine: a request, its tokens, and the state of its KV."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from agentrt.base.ids import PageId
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.metrics import Bucket, RequestMetrics
from agentrt.engine.sequence.reasoning import ReasoningState
from agentrt.kv_cache import PrefixLookup, RadixNode, key_of
from agentrt.kv_cache.node import TOKEN_BYTES
from agentrt.prompt import Detokenizer
from agentrt.prompt.stop_strings import StopStrings
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo
from agentrt.protocol.step_output import OptionScore, TokenLogprob
from agentrt.scheduler import PriorityKey

Urgency = tuple[float, ...]
"""Whether the prompt has holes, whether the request is not demanded, then the policy's key."""

QueueKey = tuple[Urgency, bool, PriorityKey, int]
"""Urgency, whether it was never preempted, tie breaks, order of arrival; smallest goes first."""


class Phase(Enum):
    """Where a sequence is. Only a running one holds a slot, pages and a lock on the radix tree."""

    HELD = "held"  # waits for a hole to be filled; every known token is computed
    AHEAD = "ahead"  # its prompt is expected; waits until nothing else is to be computed
    WAITING = "waiting"
    RUNNING = "running"


@dataclass(slots=True, eq=False)
class NewOutput:
    """Output that a step added to a sequence."""

    token_ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    forced_tokens: int = 0
    logprobs: list[TokenLogprob] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class QueueState:
    """State of a waiting sequence, kept by the `WaitingQueue`.

    Attributes:
        key: Cached sort key.
        expires_at_step: Step from which on the key must be computed again.
        info: Scheduling info from which the key was computed.
        order: Order by which the key was computed.
        lookup: Prefix lookup while the key depends on nothing else, else None.
        group: Value shared by the sequences that are admitted together.
        passed_over: Steps that the sequence has waited, by cause.
        overtaken: Sequences admitted before it while it did not fit in the KV cache.
    """

    key: QueueKey | None = None
    expires_at_step: int = 0
    info: SchedulingInfo | None = None
    order: object = None
    lookup: PrefixLookup | None = None
    group: object = None
    passed_over: dict[str, int] = field(default_factory=dict)
    overtaken: int = 0


@dataclass(slots=True, eq=False)
class ScoredOptions:
    """Options of a choice that is scored.

    Attributes:
        token_ids: Tokens of each option.
        scores: Scores found so far, by index of the option.
    """

    token_ids: list[list[int]]
    scores: dict[int, OptionScore] = field(default_factory=dict)

    @property
    def unscored(self) -> list[int]:
        """Indices of options without a score."""
        return [at for at in range(len(self.token_ids)) if at not in self.scores]


@dataclass(slots=True, eq=False)
class Sequence:
    """An unfinished request.

    Attributes:
        request: The request as submitted.
        serial: Order of arrival.
        info: Latest scheduling info; its priority depends on it.
        tokens: Prompt, as far as it is known, and output.
        prompt_tokens: Prompt length, in tokens.
        complete: No hole of the request is open, and its grammar is compiled.
        compiling: Whether no hole is open and it waits for its grammar; its prompt is computed
            meanwhile.
        max_output_tokens: Output limit from `max_tokens` and the context window, once complete.
        metrics: Times and counts.
        detokenizer: Turns its output into text.
        stops: Filter for stop strings.
        grammar: State of its compiled constraint, or of its reasoning.
        phase: Where it is.
        slot: Row of its block table while it runs.
        pages: All its pages while it runs.
        radix_node: Radix node locked while it runs; `tree_pages` of its pages are the tree's.
        lent_page: Leaf by which others find the first tokens of its last page.
        computed_tokens: Tokens with KV in its pages.
        reached_tokens: Highest value that `computed_tokens` has had; below it KV is recomputed.
        rope_threshold: Length beyond which all its KV is computed anew with other angles; 0 if it
            has these already, or never will.
        angle_offset: Where its angles begin in the model's table; 0, or the threshold it is past.
        in_flight: Tokens that are being sampled for it and are not known on the host yet.
        forced_draft: Guessed tokens of the bytes that its grammar forces next.
        preempted: Whether it lost its pages; it goes before others of the same urgency.
        admitted_overdue: Whether it was admitted because it was overdue.
        queue_state: State while it waits.
        new_output: Output that this step added.
        salt: Salt of its KV, which sequences of other salts cannot use; its adapter is in it.
        adapter: Number of its adapter from 1 on; 0 for none.
    """

    request: GenerateRequest
    serial: int
    info: SchedulingInfo
    tokens: list[int]
    prompt_tokens: int
    complete: bool
    metrics: RequestMetrics
    detokenizer: Detokenizer
    stops: StopStrings
    max_output_tokens: int = 0
    grammar: GrammarState | ReasoningState | None = None
    options: ScoredOptions | None = None
    compiling: bool = False
    phase: Phase = Phase.WAITING
    slot: int = 0
    pages: list[PageId] = field(default_factory=list)
    tree_pages: int = 0
    radix_node: RadixNode | None = None
    lent_page: RadixNode | None = None
    computed_tokens: int = 0
    reached_tokens: int = 0
    rope_threshold: int = 0
    angle_offset: int = 0
    in_flight: int = 0
    forced_draft: list[int] = field(default_factory=list)
    preempted: bool = False
    admitted_overdue: bool = False
    queue_state: QueueState = field(default_factory=QueueState)
    new_output: NewOutput = field(default_factory=NewOutput)
    salt: str = ""
    adapter: int = 0
    _key: bytes = b""

    @property
    def key(self) -> bytes:
        """Tokens as a key of the radix tree, under its salt and its angles."""
        known = len(self._key) // TOKEN_BYTES
        if known < len(self.tokens):
            salt = f"{self.salt}\0{self.angle_offset}" if self.angle_offset else self.salt
            self._key += key_of(self.tokens[known:], salt, known)
        return self._key

    @property
    def has_outgrown_angles(self) -> bool:
        """Whether it is longer than the sequences that have its angles."""
        return 0 < self.rope_threshold < len(self.tokens)

    def take_long_angles(self) -> None:
        """Have the angles of sequences past the threshold from now on, without any KV yet."""
        self.angle_offset, self.rope_threshold = self.rope_threshold, 0
        self._key = b""

    @property
    def demanded(self) -> bool:
        """Whether its run waits for the output."""
        return self.info.demanded

    @property
    def is_foreground(self) -> bool:
        """Whether the output is demanded and can be computed; else it runs in the background."""
        return self.complete and self.info.demanded

    @property
    def deadline_at_s(self) -> float | None:
        """Instant by which it must be done, or None."""
        return self.info.deadline_at_s

    @property
    def output_tokens(self) -> int:
        """Output length so far, in tokens."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def reusable_tokens(self) -> int:
        """Tokens with KV whose ids are known, so that others can find it."""
        return min(self.computed_tokens, len(self.tokens))

    @property
    def is_prefilling(self) -> bool:
        """Whether part of its prompt has no KV yet."""
        return self.computed_tokens < self.prompt_tokens

    @property
    def reasoning_tokens(self) -> int:
        """Output tokens that are reasoning, with the marks around it."""
        grammar = self.grammar
        return grammar.thinking.tokens if isinstance(grammar, ReasoningState) else 0

    @property
    def is_reasoning(self) -> bool:
        """Whether its answer has not begun."""
        grammar = self.grammar
        return isinstance(grammar, ReasoningState) and not grammar.thinking.ended

    def start_running(self, now_s: float) -> None:
        """Run with the pages that were just allocated; part of the tokens has its KV in them."""
        metrics = self.metrics
        metrics.start_running(self.time_bucket, now_s)
        reached, cached = self.reached_tokens, self.computed_tokens
        metrics.cached_tokens += max(0, cached - reached)
        metrics.recomputed_tokens += max(0, reached - cached)
        self.reached_tokens = max(reached, cached)
        self.preempted = False
        self.phase = Phase.RUNNING

    @property
    def computes_ahead(self) -> bool:
        """Whether the prompt is computed for later: it may grow, or its options are scored."""
        return not self.complete or self.request.scored

    def whole_pages(self, page_tokens: int) -> int:
        """Known tokens in whole pages, without the last token: its logits are wanted later."""
        return (len(self.tokens) - 1) // page_tokens * page_tokens

    @property
    def time_bucket(self) -> Bucket:
        """Bucket of its metrics to which the current time belongs."""
        if self.phase is Phase.RUNNING:
            return "prefill" if self.is_prefilling else "decode"
        if not self.complete:
            return "constraint" if self.compiling else "hole"
        return "queue"

    def pending_tokens(self, page_tokens: int) -> int:
        """Tokens that are left to compute now.

        Of an incomplete prompt only whole pages count, or each piece of it would take a step; of
        one for scored options all tokens but the last. A token in flight counts unless it is the
        last.
        """
        known = len(self.tokens)
        if not self.complete:
            known = self.whole_pages(page_tokens)
        elif self.request.scored:
            known -= 1
        elif self.in_flight:
            if known + self.in_flight - self.prompt_tokens >= self.max_output_tokens:
                return 0
            if 0 < self.rope_threshold < known + self.in_flight:
                return 0  # the token is computed with all others once it is known
            known += self.in_flight
        return max(0, known - self.computed_tokens)
