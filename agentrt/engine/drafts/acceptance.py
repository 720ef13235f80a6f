"""Acceptance rates of drafts, and the length of draft that pays."""

from __future__ import annotations

from math import log

from agentrt.protocol.step_output import DraftSource

RateKey = tuple[DraftSource, bool]
"""Source of a draft, and whether its text has agreed with several new tokens before."""

_FIRST_ACCEPTED, _FIRST_REJECTED = 2.0, 1.0
_MEMORY = 0.9


class AcceptanceRates:
    """Share of draft tokens that are accepted, each after those before it, by `RateKey`.

    Args:
        known: Rates to begin with.
    """

    def __init__(self, known: AcceptanceRates | None = None) -> None:
        self._counts: dict[RateKey, tuple[float, float]] = dict(known._counts) if known else {}

    def rate(self, key: RateKey) -> float:
        """Probability that the next token of a draft is accepted, in (0, 1)."""
        accepted, rejected = self._counts.get(key, (_FIRST_ACCEPTED, _FIRST_REJECTED))
        return accepted / (accepted + rejected)

    def forget(self, key: RateKey) -> None:
        """Forget what was learned of a source: it is tried again."""
        self._counts.pop(key, None)

    def note(self, key: RateKey, accepted_tokens: int, *, is_whole: bool) -> None:
        """Learn from a draft of which so many tokens were accepted, if not the whole of it."""
        accepted, rejected = self._counts.get(key, (_FIRST_ACCEPTED, _FIRST_REJECTED))
        accepted = _MEMORY * accepted + accepted_tokens
        rejected = _MEMORY * rejected + (not is_whole)
        self._counts[key] = min(max(accepted, 0.01), 100.0), max(rejected, 0.01)


def draft_length(rate: float, cost: float, limit: int) -> int:
    """Tokens of the draft that pays: the last of them is as likely as it costs.

    An accepted token saves one sequence a step, that is its share of one. Above the knee, where a
    token costs as much as that share, nothing pays.

    Args:
        rate: Probability that a token is accepted after those before it, in (0, 1).
        cost: Time that a token of a draft takes, by a sequence's share of a step.
        limit: Most tokens.
    """
    if cost >= 1.0 or rate <= 0.0:
        return 0
    if cost <= 0.0 or rate >= 1.0:
        return limit
    return min(limit, int(log(cost) / log(rate)))


def expected_gain(rate: float, cost: float, tokens: int) -> float:
    """Steps that a draft is expected to save its sequence, less what it costs.

    Args:
        rate: Same as for `draft_length`.
        cost: Same as for `draft_length`.
        tokens: Tokens of the draft.

    Example:
        >>> expected_gain(0.5, 0.25, 2)
        0.25
    """
    accepted = tokens if rate >= 1.0 else rate * (1.0 - rate**tokens) / (1.0 - rate)
    return accepted - cost * tokens
