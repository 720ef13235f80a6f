"""KV cache bookkeeping: page ownership, prefix match, eviction, KV offload. No tensors here."""

from agentrt.kv_cache.node import EvictionPriority, PrefixLookup, RadixNode, key_of
from agentrt.kv_cache.offload_tier import Copier, OffloadTier
from agentrt.kv_cache.pages import PagePool
from agentrt.kv_cache.radix import Evicted, Inserted, PrefixMatch, RadixTree

__all__ = [
    "Copier",
    "Evicted",
    "EvictionPriority",
    "Inserted",
    "OffloadTier",
    "PagePool",
    "PrefixLookup",
    "PrefixMatch",
    "RadixNode",
    "RadixTree",
    "key_of",
]
