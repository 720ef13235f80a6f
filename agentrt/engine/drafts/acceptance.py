"""Acceptance rates of drafts by source and by place within a draft, learned on three levels.

A sequence leans on its call site, a call site on the engine: few drafts of one's own count as much
as what is known above, many count alone. So a source that fails everywhere is not tried by each new
sequence anew.
"""

from __future__ import annotations

from agentrt.protocol.step_output import DraftSource

RateKey = tuple[DraftSource, bool]
"""Source of a draft, and whether its text has agreed with several new tokens before."""

_FIRST_RATE = 0.6
_PARENT_TOKENS = 2.0
"""Tokens of one's own that count as much as the rate above."""

ENGINE_MEMORY, SITE_MEMORY, SEQUENCE_MEMORY = 0.98, 0.95, 0.9
"""Weight that a draft keeps when the next one is noted."""

_PLACES = (0, 1, 2, 2, 3, 3, 3, 3, 4)
"""Places with a rate of their own, by index in the draft; the last one holds for all behind."""

_KNOWN_PLACES = 1 + _PLACES[-1]
_LEAST_CHANCE = 0.01


class AcceptanceRates:
    """Share of draft tokens that are accepted, each after those before it.

    Args:
        memory: Weight that a draft keeps when the next one is noted.
        parent: Rates to lean on, which learn along; None is the engine's own.
    """

    def __init__(self, memory: float, parent: AcceptanceRates | None = None) -> None:
        self._memory = memory
        self._parent = parent
        self._counts: dict[RateKey, list[list[float]]] = {}

    def rate(self, key: RateKey, at: int = 0) -> float:
        """Probability that the token at an index is accepted after those before it, in (0, 1)."""
        return self._rate(key, _PLACES[min(at, len(_PLACES) - 1)])

    def chances(self, key: RateKey, tokens: int, least: float = _LEAST_CHANCE) -> list[float]:
        """Probabilities that the draft's first token is accepted, the first two, and so on.

        Args:
            key: Source of the draft.
            tokens: Tokens of the draft.
            least: Chance below which the rest is left out.
        """
        found: list[float] = []
        chance = rate = 1.0
        known_place = -1
        for at in range(tokens):
            place = _PLACES[at] if at < len(_PLACES) else _PLACES[-1]
            if place != known_place:
                rate, known_place = self._rate(key, place), place
            chance *= rate
            if chance < least:
                break
            found.append(chance)
        return found

    def note(self, key: RateKey, accepted_tokens: int, *, is_whole: bool) -> None:
        """Learn from a draft of which so many tokens were accepted, if not the whole of it."""
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [[0.0, 0.0] for _ in range(_KNOWN_PLACES)]
        last = accepted_tokens - is_whole
        memory, at, place = self._memory, 0, 0
        while at <= last:
            count = counts[place]
            count[0] *= memory
            count[1] *= memory
            while at <= last and _PLACES[min(at, len(_PLACES) - 1)] == place:
                count[at >= accepted_tokens] += 1.0
                at += 1
            place += 1
        if self._parent is not None:
            self._parent.note(key, accepted_tokens, is_whole=is_whole)

    def _rate(self, key: RateKey, place: int) -> float:
        if self._parent is not None:
            above = self._parent._rate(key, place)
        else:  # a place of which nothing is known is like the one before
            above = self._rate(key, place - 1) if place else _FIRST_RATE
        counts = self._counts.get(key)
        if counts is None:
            return above
        accepted, rejected = counts[place]
        return (accepted + _PARENT_TOKENS * above) / (accepted + rejected + _PARENT_TOKENS)
