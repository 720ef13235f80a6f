"""Who owns which page of KV memory, and which prefixes are there to be shared. No tensors here."""

from agentrt.cache.pages import PagePool
from agentrt.cache.radix import Inserted, PrefixMatch, RadixNode, RadixTree, Retention, key_of

__all__ = [
    "Inserted",
    "PagePool",
    "PrefixMatch",
    "RadixNode",
    "RadixTree",
    "Retention",
    "key_of",
]
