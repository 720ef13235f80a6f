"""Who owns which page of KV memory, and which prefixes are there to be shared. No tensors here."""

from agentrt.cache.lower import Copier, LowerTier
from agentrt.cache.pages import PagePool
from agentrt.cache.radix import (
    Evicted,
    Inserted,
    PrefixMatch,
    RadixNode,
    RadixTree,
    Retention,
    Seen,
    key_of,
)

__all__ = [
    "Copier",
    "Evicted",
    "Inserted",
    "LowerTier",
    "PagePool",
    "PrefixMatch",
    "RadixNode",
    "RadixTree",
    "Retention",
    "Seen",
    "key_of",
]
