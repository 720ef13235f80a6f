"""What the next step computes. Pure decisions: no tensors, no clock, no pages change hands here.

A step is `{request: tokens}` under a budget. There is no prefill phase and no decode phase:
sequences that decode come first, then prompts under way, then waiting ones by `order_key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentrt.backend import RequestFacts
from agentrt.cache.radix import TOKEN_BYTES
from agentrt.ids import RequestId
from agentrt.scheduler.priority import Key, key

OrderKey = tuple[bool, bool, bool, Key]

HOLE_CHUNK_TOKENS = 128
"""Most tokens of incomplete prompts in a step in which somebody waits for other tokens."""


@dataclass(frozen=True, slots=True)
class WaitingFacts:
    """What the order of one waiting sequence depends on.

    Attributes:
        request: What the scheduler's order depends on.
        preempted: It ran already and lost its pages.
        complete: Its prompt has no hole.
    """

    request: RequestFacts
    preempted: bool
    complete: bool


def order_key(now_s: float, facts: WaitingFacts) -> OrderKey:
    """Whole prompts, demanded ones first, among those the preempted, then as the scheduler says."""
    demanded = facts.request.demanded
    return (not facts.complete, not demanded, not facts.preempted, key(now_s, facts.request))


class StepPlan:
    """Shares of one step's budget.

    Attributes:
        left_tokens: What is not given away yet.
        shares: Tokens by request, in the order of the batch.
    """

    __slots__ = ("left_tokens", "shares")

    def __init__(self, step_tokens: int) -> None:
        self.left_tokens = step_tokens
        self.shares: dict[RequestId, int] = {}

    def give(self, request_id: RequestId, wanted_tokens: int, most_tokens: int) -> int:
        """Up to `most_tokens` of what is wanted and left; returns how many."""
        given = min(wanted_tokens, most_tokens, self.left_tokens)
        if given <= 0:
            return 0
        self.shares[request_id] = given
        self.left_tokens -= given
        return given

    def take_back(self, request_id: RequestId) -> None:
        """The sequence does not take part after all."""
        self.left_tokens += self.shares.pop(request_id, 0)


@dataclass(frozen=True, slots=True)
class VictimFacts:
    """What makes a running sequence the one to give up its pages.

    Attributes:
        request_id: Which.
        output_tokens: Produced so far.
        prompt_tokens: Length of its prompt.
        serial: Order of arrival.
    """

    request_id: RequestId
    output_tokens: int
    prompt_tokens: int
    serial: int


def victim(running: Iterable[VictimFacts]) -> RequestId | None:
    """The one with the fewest output tokens, then the longest prompt, then the latest."""
    worst = min(
        running,
        key=lambda one: (one.output_tokens, -one.prompt_tokens, -one.serial),
        default=None,
    )
    return None if worst is None else worst.request_id


def common_tokens(one: bytes, other: bytes) -> int:
    """Tokens that two keys share from the start."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most // TOKEN_BYTES
    low, high = 0, most
    while low + 1 < high:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low // TOKEN_BYTES


def waits_for_prefix(
    key: bytes, matched_tokens: int, under_way: Sequence[bytes], page_tokens: int
) -> bool:
    """Whether another sequence is about to compute what this one would compute too.

    Args:
        key: Of the waiting sequence's tokens.
        matched_tokens: What the tree has of them.
        under_way: Keys of the prompts that are being computed.
        page_tokens: Tokens of a page; less than one page is not worth waiting for.
    """
    usable = (len(key) // TOKEN_BYTES - 1) // page_tokens * page_tokens
    if usable < matched_tokens + page_tokens:
        return False
    return any(
        min(usable, common_tokens(key, other)) >= matched_tokens + page_tokens
        for other in under_way
    )
