"""Drafted tokens of a round by source, and a hash of its outputs, as arms of drafts answer them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from agentrt.protocol.step_output import Ledger


class DraftedTokens:
    """Sums over the requests of a round.

    Attributes:
        accepted: Tokens that were drawn as drafted, by source.
        rejected: Tokens that were computed in vain, by source.
    """

    def __init__(self) -> None:
        self.accepted, self.rejected = Counter[str](), Counter[str]()

    def add(self, ledger: Ledger) -> None:
        """Add a request that has ended."""
        for one in ledger.drafts:
            self.accepted[one.source] += one.accepted_tokens
            self.rejected[one.source] += one.rejected_tokens


def hash_of(outputs: object) -> str:
    """A short hash of outputs, which JSON can write."""
    return hashlib.sha256(json.dumps(outputs).encode()).hexdigest()[:16]
