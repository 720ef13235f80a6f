"""KV cache bookkeeping: page ownership, prefix match, eviction, KV offload. No tensors here."""

from agentrt.kv_cache.node import EvictionPriority, RadixNode, key_of, kv_salt
from agentrt.kv_cache.offload_tier import Copier, OffloadTier
from agentrt.kv_cache.pages import PagePool
from agentrt.kv_cache.prefix_match import (
    Evicted,
    Inserted,
    PartialMatch,
    PrefixLookup,
    PrefixMatch,
)
from agentrt.kv_cache.radix import RadixTree

__all__ = [
    "Copier",
    "Evicted",
    "EvictionPriority",
    "Inserted",
    "OffloadTier",
    "PagePool",
    "PartialMatch",
    "PrefixLookup",
    "PrefixMatch",
    "RadixNode",
    "RadixTree",
    "key_of",
    "kv_salt",
]
