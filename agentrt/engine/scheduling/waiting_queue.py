"""Those that wait for a place in a step, in the scheduler's order.

Working a place out asks the radix tree what it knows of a prompt, so places are kept for some
steps: until something was told, the prompt grew, or the policy wants to look again. What depends on
no clock is kept for longer: until the tree has changed where the prompt was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentrt.base.config import EngineConfig
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.token_budget import Cause
from agentrt.engine.sequence.sequence import Phase, Place, QueueState, Sequence, Urgency
from agentrt.kv_cache.node import TOKEN_BYTES
from agentrt.protocol.backend import SchedulingInfo
from agentrt.protocol.step_output import Admission
from agentrt.scheduler import KeyTerms, Order, policy
from agentrt.scheduler.order.order import BEFORE_TIES, OVERDUE_S, is_overdue

_TELLING_TOKENS = 16
"""Steps over fewer tokens of prompts say more about the step than about the tokens."""


class WaitingQueue:
    """Sorts sequences by how soon they should be served.

    Args:
        config: Names the policy.
        paging: Knows what is computed already.
    """

    def __init__(self, config: EngineConfig, paging: KvAllocator) -> None:
        self._name = config.policy
        self._paging = paging
        self._page_bytes = config.page_tokens * TOKEN_BYTES
        self._token_s = 0.0
        self._told_token_s = 0.0
        self._order = self._sorting = Order(policy(config.policy))
        self._step = 0
        self._admitted: list[Admission] = []

    @property
    def policy(self) -> str:
        """By whose order the last line was sorted."""
        return self._sorting.policy.name

    @property
    def together(self) -> bool:
        """Whether requests of one run that share a prefix are let in together."""
        return self._sorting.policy.together

    def check(self, facts: SchedulingInfo, now_s: float) -> None:
        """Whether the facts of a new request suffice.

        Raises:
            UsageError: They lack what the policy cannot do without.
        """
        self._order.key(now_s, facts)

    def note_prefill(self, tokens: int, seconds: float) -> None:
        """A step over `tokens` of prompts, and nothing else, took so long."""
        if tokens < _TELLING_TOKENS or seconds <= 0:
            return
        took_s = seconds / tokens
        self._token_s += (0.2 if self._token_s else 1.0) * (took_s - self._token_s)
        if not 0.8 < self._told_token_s / self._token_s < 1.25:
            self._told_token_s = self._token_s
            self._order = Order(policy(self._name, self._token_s))

    def sort(self, now_s: float, sequences: list[Sequence]) -> list[Sequence]:
        """The sequences as they should be served in the next step."""
        self._step += 1
        self._sorting = self._order.among(len(sequences))
        if len(sequences) < 2:
            return sequences
        line = sorted(sequences, key=lambda one: self._place(now_s, one))
        return self._gathered(line) if self.together and len(line) > 2 else line

    def overdue(self, now_s: float, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Those among them that have waited beyond all measure, the first to come first."""
        before_s = now_s - OVERDUE_S  # most came later, and need no second look
        late = [
            one
            for one in sequences
            if one.account.completed_at_s < before_s and _is_overdue(now_s, one)
        ]
        late.sort(key=lambda one: (one.account.completed_at_s, one.serial))
        return late

    def urgency(self, now_s: float, sequence: Sequence) -> Urgency:
        """Who gives up its pages first: the largest. What is overdue goes last of all."""
        incomplete, undemanded, *key = self._place(now_s, sequence)[0]
        return (incomplete, undemanded, not _is_overdue(now_s, sequence), *key)

    def note_admission(self, sequence: Sequence, place: int, now_s: float) -> None:
        """It got a place in the step that is being planned: tell why."""
        self._admitted.append(
            Admission(
                request_id=sequence.request.request_id,
                at_s=now_s,
                policy=self.policy,
                waited_s=now_s - sequence.account.mark_s if sequence.complete else 0.0,
                position=place,
                waiting=0,
                passed_over=tuple(sequence.standing.passed_over.items()),
                terms=self._terms(now_s, sequence),
            )
        )
        sequence.standing = QueueState()

    def note_left_out(self, causes: Mapping[Sequence, Cause], steps: int = 1) -> None:
        """The step, or so many, is planned, without these."""
        if not steps:
            return
        for sequence, cause in causes.items():
            passed = sequence.standing.passed_over
            passed[cause] = passed.get(cause, 0) + steps
        if causes:
            self._admitted = [replace(one, waiting=len(causes)) for one in self._admitted]

    def take_admissions(self) -> tuple[Admission, ...]:
        """Who got a place in the step that was planned, and why; told once."""
        admissions, self._admitted = tuple(self._admitted), []
        return admissions

    def _terms(self, now_s: float, sequence: Sequence) -> KeyTerms:
        """What the place of a sequence that came in was worked out from."""
        cached_tokens = sequence.computed_tokens
        uncached_tokens = len(sequence.tokens) - cached_tokens
        terms = self._sorting.terms(now_s, sequence.facts, uncached_tokens, cached_tokens)
        own = [("uncached_tokens", float(uncached_tokens))]
        if _is_overdue(now_s, sequence):
            own.append(("overdue", 1.0))
        if not sequence.demanded:
            own.append(("undemanded", 1.0))
        return (*terms, *own)

    def _place(self, now_s: float, sequence: Sequence) -> Place:
        standing = sequence.standing
        place, sorting = standing.place, self._sorting
        if (
            place is not None
            and standing.facts is sequence.facts
            and standing.policy is sorting
            and place[0][0] != sequence.complete
            and place[1] != sequence.preempted
            and (self._step < standing.until_step or _lasts(sequence))
        ):
            return place
        seen = None
        if sequence.phase is Phase.RUNNING:
            cached = sequence.computed_tokens
        else:
            cached, seen = self._paging.look(sequence.key)
        uncached = max(0, len(sequence.tokens) - cached)
        key = sorting.key(now_s, sequence.facts, uncached, cached)
        urgency = (not sequence.complete, not sequence.demanded, *key[:BEFORE_TIES])
        place = (urgency, not sequence.preempted, key[BEFORE_TIES:], sequence.serial)
        standing.place, standing.facts, standing.policy = place, sequence.facts, sorting
        standing.seen = seen if sorting.lasts(sequence.facts) else None
        fresh = sorting.policy.fresh_steps  # an even part of the line is looked at anew each step
        standing.fork = self._fork(sequence)
        standing.until_step = self._step + fresh - (self._step + sequence.serial) % fresh
        return place

    def _fork(self, sequence: Sequence) -> object:
        """The same for those that are let in together."""
        if not sequence.is_wanted:
            return sequence.serial
        return sequence.request.run_id, sequence.key[: self._page_bytes]

    def _gathered(self, line: list[Sequence]) -> list[Sequence]:
        """The same line with those that share run and prefix right behind the first of them."""
        forks: dict[object, list[Sequence]] = {}
        for sequence in line:
            forks.setdefault(sequence.standing.fork, []).append(sequence)
        if len(forks) == len(line):
            return line
        return [sequence for fork in forks.values() for sequence in fork]


def _lasts(sequence: Sequence) -> bool:
    """Whether working its place out anew would give the same."""
    seen = sequence.standing.seen
    return seen is not None and seen.is_current and seen.prompt_tokens == len(sequence.tokens)


def _is_overdue(now_s: float, sequence: Sequence) -> bool:
    since_s = sequence.account.completed_at_s
    return sequence.is_wanted and is_overdue(now_s, sequence.facts, since_s)
