"""Outputs of one call site: what it wrote in earlier runs, and what unfinished requests write.

A call site is one place in a program. Its outputs share their form, and often much of their text.
They are kept apart by the salt of the KV cache, so that no tenant's text is drafted for another.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from agentrt.engine.drafts.acceptance import ENGINE_MEMORY, SITE_MEMORY, AcceptanceRates
from agentrt.engine.drafts.ngrams import NGRAM_TOKENS, START, NgramIndex, Trail

SITE_TOKENS = 4096
"""Tokens of ended outputs that are kept for a call site."""

MAX_SITES = 64
"""Call sites that are kept, the least recently used dropped first."""


class SiteOutputs:
    """Outputs of one call site.

    Args:
        engine_rates: Acceptance rates of all call sites, or None.

    Attributes:
        rates: Acceptance rates of its drafts.
    """

    def __init__(self, engine_rates: AcceptanceRates | None = None) -> None:
        self.rates = AcceptanceRates(SITE_MEMORY, engine_rates)
        self._ended: deque[list[int]] = deque()
        self._ended_tokens = 0
        self._ended_ngrams = NgramIndex()
        self._open_ngrams = NgramIndex()

    @property
    def ended_tokens(self) -> int:
        """Tokens of the ended outputs that are kept."""
        return self._ended_tokens

    def open(self) -> list[int]:
        """Begin an output; its text begins with `START`."""
        return list(START)

    def extend(self, text: list[int], token_ids: list[int]) -> None:
        """Append tokens to an open output."""
        begin = len(text)
        text += token_ids
        self._open_ngrams.add(text, begin)

    def close(self, text: list[int]) -> None:
        """End an output; the oldest ones are dropped if there are too many tokens."""
        self._open_ngrams.remove(text)
        if len(text) == NGRAM_TOKENS:
            return
        text = text[: NGRAM_TOKENS + SITE_TOKENS]
        self._ended.append(text)
        self._ended_tokens += len(text) - NGRAM_TOKENS
        while self._ended_tokens > SITE_TOKENS:
            dropped = self._ended.popleft()
            self._ended_tokens -= len(dropped) - NGRAM_TOKENS
            self._ended_ngrams.remove(dropped)
        self._ended_ngrams.add(text, NGRAM_TOKENS)

    def find_ended(self, text: list[int]) -> Trail | None:
        """The place in an ended output behind the last tokens of `text`."""
        return self._ended_ngrams.find(text)

    def find_open(self, text: list[int]) -> Trail | None:
        """The place in another open output behind the last tokens of `text`."""
        return self._open_ngrams.find(text)


class OutputsBySite:
    """Outputs of the call sites in use, by salt of the KV cache and site."""

    def __init__(self) -> None:
        self._rates = AcceptanceRates(ENGINE_MEMORY)
        self._sites: OrderedDict[tuple[str, str], SiteOutputs] = OrderedDict()

    def of(self, cache_salt: str, site: str) -> SiteOutputs:
        """Outputs of a call site."""
        key = cache_salt, site
        found = self._sites.pop(key, None) or SiteOutputs(self._rates)
        self._sites[key] = found
        if len(self._sites) > MAX_SITES:
            self._sites.popitem(last=False)
        return found
