"""The waiting queue: sequences that are not in the batch, in priority order.

Computing a priority key walks the radix tree, so keys are cached for some steps: until the
request's info or prompt changes, or the policy's refresh interval ends. A key that does not depend
on the clock is kept longer: until the radix tree has changed where the prompt was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.token_budget import WaitCause
from agentrt.engine.sequence.sequence import Phase, QueueKey, QueueState, Sequence, Urgency
from agentrt.kv_cache.node import TOKEN_BYTES
from agentrt.protocol.backend import SchedulingInfo
from agentrt.protocol.step_output import Admission
from agentrt.scheduler import KeyTerms, Order, policy
from agentrt.scheduler.order.order import OVERDUE_S, TIE_BREAK_FROM, is_overdue

_MIN_PREFILL_TOKENS = 16
"""Prefill steps over fewer tokens measure the step's base cost rather than the cost of a token."""


class WaitingQueue:
    """Sorts sequences by priority.

    Args:
        config: Names the policy.
        allocator: Knows the cached tokens of a prompt.
    """

    def __init__(self, config: EngineConfig, allocator: KvAllocator) -> None:
        self._policy = config.policy
        self._allocator = allocator
        self._page_bytes = config.page_tokens * TOKEN_BYTES
        self._token_s = 0.0
        self._policy_token_s = 0.0
        self._order = self._active_order = Order(policy(config.policy))
        self._step = 0
        self._admissions: list[Admission] = []

    @property
    def policy(self) -> str:
        """Name of the policy by which the queue was last sorted."""
        return self._active_order.policy.name

    @property
    def groups_forks(self) -> bool:
        """Whether requests of one run that share a prefix are admitted together."""
        return self._active_order.policy.groups_forks

    @property
    def long_steps(self) -> bool:
        """Whether prompts may fill a step, however long it then takes."""
        return self._active_order.policy.long_steps

    @property
    def prompts_yield(self) -> bool:
        """Whether prompts wait for more urgent decodes that end soon."""
        return self._active_order.policy.prompts_yield

    def check_info(self, info: SchedulingInfo, now_s: float) -> None:
        """Check that the info of a request is all that scheduling needs.

        Raises:
            UsageError: Something is missing, or the expected output is no number of tokens.
        """
        if not isfinite(info.output_tokens):
            raise UsageError(
                f"the expected output is {info.output_tokens} tokens",
                hint="Give the expected number of output tokens",
            )
        self._order.key(now_s, info)

    def note_prefill(self, tokens: int, seconds: float) -> None:
        """Learn from a step over `tokens` of prompts and nothing else what a token takes."""
        if tokens < _MIN_PREFILL_TOKENS or seconds <= 0:
            return
        took_s = seconds / tokens
        self._token_s += (0.2 if self._token_s else 1.0) * (took_s - self._token_s)
        if not 0.8 < self._policy_token_s / self._token_s < 1.25:
            self._policy_token_s = self._token_s
            self._order = Order(policy(self._policy, self._token_s))

    def sort(self, now_s: float, sequences: list[Sequence]) -> list[Sequence]:
        """The sequences in the order in which the next step serves them."""
        self._step += 1
        self._active_order = self._order.limited_to(len(sequences))
        if len(sequences) < 2:
            return sequences
        ordered = sorted(sequences, key=lambda one: self._key(now_s, one))
        return self._grouped(ordered) if self.groups_forks and len(ordered) > 2 else ordered

    def overdue(self, now_s: float, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Sequences that have waited excessively long, the earliest first."""
        before_s = now_s - OVERDUE_S  # most came later: a cheap test first
        late = [
            one
            for one in sequences
            if one.metrics.completed_at_s < before_s and _is_overdue(now_s, one)
        ]
        late.sort(key=lambda one: (one.metrics.completed_at_s, one.serial))
        return late

    def urgency(self, now_s: float, sequence: Sequence) -> Urgency:
        """Sort key for preemption, the largest first; overdue sequences are preempted last."""
        incomplete, undemanded, *key = self._key(now_s, sequence)[0]
        return (incomplete, undemanded, not _is_overdue(now_s, sequence), *key)

    def note_admission(self, sequence: Sequence, position: int, now_s: float) -> None:
        """Record that a sequence was admitted to the step being scheduled, and why."""
        self._admissions.append(
            Admission(
                request_id=sequence.request.request_id,
                at_s=now_s,
                policy=self.policy,
                waited_s=now_s - sequence.metrics.recorded_until_s if sequence.complete else 0.0,
                position=position,
                waiting=0,
                passed_over=tuple(sequence.queue_state.passed_over.items()),
                terms=self._terms(now_s, sequence),
            )
        )
        sequence.queue_state = QueueState()

    def note_waiting(self, causes: Mapping[Sequence, WaitCause], steps: int = 1) -> None:
        """Record that these sequences wait through the step, or through `steps` of them."""
        if not steps:
            return
        for sequence, cause in causes.items():
            passed = sequence.queue_state.passed_over
            passed[cause] = passed.get(cause, 0) + steps
        if causes:
            self._admissions = [replace(one, waiting=len(causes)) for one in self._admissions]

    def take_admissions(self) -> tuple[Admission, ...]:
        """Admissions of the step that was scheduled; each is returned once."""
        admissions, self._admissions = tuple(self._admissions), []
        return admissions

    def _terms(self, now_s: float, sequence: Sequence) -> KeyTerms:
        """Terms from which the priority of an admitted sequence was computed."""
        cached_tokens = sequence.computed_tokens
        uncached_tokens = len(sequence.tokens) - cached_tokens
        terms = self._active_order.terms(now_s, sequence.info, uncached_tokens, cached_tokens)
        own = [("uncached_tokens", float(uncached_tokens))]
        if _is_overdue(now_s, sequence):
            own.append(("overdue", 1.0))
        if not sequence.demanded:
            own.append(("undemanded", 1.0))
        return (*terms, *own)

    def _key(self, now_s: float, sequence: Sequence) -> QueueKey:
        state = sequence.queue_state
        key, order = state.key, self._active_order
        if (
            key is not None
            and state.info is sequence.info
            and state.order is order
            and key[0][0] != sequence.complete
            and key[1] != sequence.preempted
            and (self._step < state.expires_at_step or _is_lookup_current(sequence))
        ):
            return key
        lookup = None
        if sequence.phase is Phase.RUNNING:
            cached = sequence.computed_tokens
        else:
            cached, lookup = self._allocator.lookup_prefix(sequence.key)
        uncached = max(0, len(sequence.tokens) - cached)
        policy_key = order.key(now_s, sequence.info, uncached, cached)
        urgency = (not sequence.complete, not sequence.demanded, *policy_key[:TIE_BREAK_FROM])
        key = (urgency, not sequence.preempted, policy_key[TIE_BREAK_FROM:], sequence.serial)
        state.key, state.info, state.order = key, sequence.info, order
        state.lookup = lookup if order.is_time_invariant(sequence.info) else None
        refresh_steps = order.policy.refresh_steps  # an even part of the queue expires each step
        state.group = self._group(sequence)
        state.expires_at_step = (
            self._step + refresh_steps - (self._step + sequence.serial) % refresh_steps
        )
        return key

    def _group(self, sequence: Sequence) -> object:
        """A value shared by the sequences that are admitted together."""
        if not sequence.is_foreground:
            return sequence.serial
        return sequence.request.run_id, sequence.key[: self._page_bytes]

    def _grouped(self, ordered: list[Sequence]) -> list[Sequence]:
        """The same order with each fork's branches right behind the first of them."""
        groups: dict[object, list[Sequence]] = {}
        for sequence in ordered:
            groups.setdefault(sequence.queue_state.group, []).append(sequence)
        if len(groups) == len(ordered):
            return ordered
        return [sequence for fork in groups.values() for sequence in fork]


def _is_lookup_current(sequence: Sequence) -> bool:
    """Whether the radix tree would answer the same for its prompt."""
    lookup = sequence.queue_state.lookup
    return lookup is not None and lookup.is_current and lookup.prompt_tokens == len(sequence.tokens)


def _is_overdue(now_s: float, sequence: Sequence) -> bool:
    since_s = sequence.metrics.completed_at_s
    return sequence.is_foreground and is_overdue(now_s, sequence.info, since_s)
