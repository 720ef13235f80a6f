"""Who owns which page of KV memory, and which prefixes are there to be shared. No tensors here."""

from agentrt.kv_cache.offload_tier import Copier, LowerTier
from agentrt.kv_cache.pages import PagePool
from agentrt.kv_cache.radix import (
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
