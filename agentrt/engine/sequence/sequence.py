"""One token stream in the engine: a request, its tokens, and where its KV stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from agentrt.base.ids import PageId
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.metrics import Bucket, RequestMetrics
from agentrt.engine.sequence.reasoning import ReasoningState
from agentrt.engine.sequence.stop_strings import StopStrings
from agentrt.kv_cache import PrefixLookup, RadixNode, key_of
from agentrt.kv_cache.node import TOKEN_BYTES
from agentrt.prompt import Detokenizer
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo
from agentrt.protocol.step_output import OptionScore, TokenLogprob
from agentrt.scheduler import PriorityKey

Urgency = tuple[float, ...]
"""Whether its prompt has holes, whether nobody waits for it, and what the scheduler goes by."""

Place = tuple[Urgency, bool, PriorityKey, int]
"""How urgent, whether it never ran, what breaks ties, order of arrival; smallest first."""


class Phase(Enum):
    """Where a sequence is. Only a running one holds a slot, pages and a lock."""

    HELD = "held"  # waits for a hole, all that is known is computed
    COMPILING = "compiling"  # waits for its grammar
    WAITING = "waiting"
    RUNNING = "running"


@dataclass(slots=True, eq=False)
class NewOutput:
    """What this step added to a sequence."""

    token_ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    forced_tokens: int = 0
    logprobs: list[TokenLogprob] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class QueueState:
    """How it stands with a sequence that waits for a place in a step; `line` keeps it.

    Attributes:
        place: What it is sorted by.
        until_step: From which step on the place has to be worked out again.
        facts: From which it was worked out.
        policy: By whose order.
        seen: What the cache knew, where the place stands as long as that is so; else None.
        fork: The same for those that are let in together.
        passed_over: Steps in which it went on waiting, by cause.
        passed_by: How many went ahead of it while it did not fit the memory.
    """

    place: Place | None = None
    until_step: int = 0
    facts: SchedulingInfo | None = None
    policy: object = None
    seen: PrefixLookup | None = None
    fork: object = None
    passed_over: dict[str, int] = field(default_factory=dict)
    passed_by: int = 0


@dataclass(slots=True, eq=False)
class ScoredOptions:
    """What a choice that is to be scored chooses among.

    Attributes:
        token_ids: Of each option.
        scores: What was found, by option.
    """

    token_ids: list[list[int]]
    scores: dict[int, OptionScore] = field(default_factory=dict)

    @property
    def left(self) -> list[int]:
        """Options that have no score yet."""
        return [at for at in range(len(self.token_ids)) if at not in self.scores]


@dataclass(slots=True, eq=False)
class Sequence:
    """A request under way.

    Attributes:
        request: As it was submitted.
        serial: Order of arrival.
        facts: What its place among those that wait depends on, as last told.
        tokens: Prompt (as far as it is known) and output.
        prompt_tokens: How many of them are prompt.
        complete: No hole is open.
        most_output_tokens: What `max_tokens` and the window leave for the output, once complete.
        account: Where its time goes.
        detokenizer: Of its output.
        stops: Its stop strings.
        guide: Its constraint, once compiled.
        phase: Where it is.
        slot: Row of its block table while it runs.
        pages: All its pages while it runs.
        node: The radix node it holds while it runs; `tree_pages` of its pages are the tree's.
        computed_tokens: How many tokens have their KV in its pages.
        reached_tokens: The most tokens whose KV it has ever had: beyond it nothing is recomputed.
        in_flight: Tokens that are drawn for it and not known here yet.
        draft: Tokens that may come next, guessed; computed with those that are known.
        preempted: It lost its pages and goes before those that are as urgent.
        express: It was let in because it had waited beyond all measure.
        standing: How it stands while it waits.
        fresh: What this step added to it.
    """

    request: GenerateRequest
    serial: int
    facts: SchedulingInfo
    tokens: list[int]
    prompt_tokens: int
    complete: bool
    account: RequestMetrics
    detokenizer: Detokenizer
    stops: StopStrings
    most_output_tokens: int = 0
    guide: GrammarState | ReasoningState | None = None
    options: ScoredOptions | None = None
    phase: Phase = Phase.WAITING
    slot: int = 0
    pages: list[PageId] = field(default_factory=list)
    tree_pages: int = 0
    node: RadixNode | None = None
    computed_tokens: int = 0
    reached_tokens: int = 0
    in_flight: int = 0
    draft: list[int] = field(default_factory=list)
    preempted: bool = False
    express: bool = False
    standing: QueueState = field(default_factory=QueueState)
    fresh: NewOutput = field(default_factory=NewOutput)
    _key: bytes = b""

    @property
    def key(self) -> bytes:
        """Its tokens as the radix tree's key, under the salt of its request."""
        known = len(self._key) // TOKEN_BYTES
        if known < len(self.tokens):
            self._key += key_of(self.tokens[known:], self.request.cache_salt, known)
        return self._key

    @property
    def demanded(self) -> bool:
        """Somebody waits for it."""
        return self.facts.demanded

    @property
    def is_wanted(self) -> bool:
        """Somebody waits for it, and its output could be computed; else it runs in slack."""
        return self.complete and self.facts.demanded

    @property
    def deadline_at_s(self) -> float | None:
        """When it must be done, or None."""
        return self.facts.deadline_at_s

    @property
    def output_tokens(self) -> int:
        """Tokens produced."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def prefills(self) -> bool:
        """Whether some of its prompt has no KV yet."""
        return self.computed_tokens < self.prompt_tokens

    @property
    def thought_tokens(self) -> int:
        """Tokens of its output that are thought, with what frames it."""
        guide = self.guide
        return guide.thinking.tokens if isinstance(guide, ReasoningState) else 0

    @property
    def thinks(self) -> bool:
        """Whether its answer has not begun."""
        guide = self.guide
        return isinstance(guide, ReasoningState) and not guide.thinking.ended

    @property
    def keeps_pages(self) -> bool:
        """Whether only whole pages of its prompt are computed: it may grow, or is to be scored."""
        return not self.complete or self.request.scored

    @property
    def waits_in(self) -> Bucket:
        """Where the time goes that passes now."""
        if self.phase is Phase.RUNNING:
            return "prefill" if self.prefills else "decode"
        if not self.complete:
            return "hole"
        return "constraint" if self.phase is Phase.COMPILING else "queue"

    def pending_tokens(self, page_tokens: int) -> int:
        """Tokens to compute as things stand.

        Of a prompt that is not complete only whole pages count, and not the last token: nothing
        else of it can be kept. So of one whose options are scored. A token in flight counts unless
        it will be the last.
        """
        known = len(self.tokens)
        if self.keeps_pages:
            known = (known - 1) // page_tokens * page_tokens
        elif self.in_flight:
            if known + self.in_flight - self.prompt_tokens >= self.most_output_tokens:
                return 0
            known += self.in_flight
        return max(0, known - self.computed_tokens)
