"""A node of the radix tree, and its eviction priority."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

from agentrt.base.ids import PageId
from agentrt.base.record import record

TOKEN_BYTES = 4
_SALTED_BYTES = 64
"""Bytes at the start of a key that a salt changes: they fill a page of 16 tokens."""


def key_of(token_ids: Sequence[int], cache_salt: str = "", at: int = 0) -> bytes:
    """Token ids as a key of the tree: int32 bytes.

    A salt is mixed into the first tokens of the prompt. Keys of different salts differ in their
    first page, so that no prefix of one is a prefix of the other.

    Args:
        token_ids: Ids of consecutive tokens of a prompt.
        cache_salt: Salt of the request; "" mixes nothing in.
        at: Position of the first of these tokens in the prompt.
    """
    key = array("i", token_ids).tobytes()
    begin = at * TOKEN_BYTES
    if not cache_salt or begin >= _SALTED_BYTES:
        return key
    pad = _pad_of(cache_salt)[begin : begin + len(key)]
    mixed = int.from_bytes(key[: len(pad)]) ^ int.from_bytes(pad)
    return mixed.to_bytes(len(pad)) + key[len(pad) :]


def common_bytes(one: bytes, other: bytes, unit: int) -> int:
    """Length of the common prefix of two keys, in whole units of so many bytes."""
    units = min(len(one), len(other)) // unit
    if one[: units * unit] == other[: units * unit]:
        return units * unit
    low, high = 0, units  # units [0, low) agree, [0, high) do not
    while low + 1 < high:
        middle = (low + high) // 2
        if one[low * unit : middle * unit] == other[low * unit : middle * unit]:
            low = middle
        else:
            high = middle
    return low * unit


@lru_cache(maxsize=256)
def _pad_of(cache_salt: str) -> bytes:
    salt = cache_salt.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(salt, digest_size=_SALTED_BYTES).digest()


class EvictionPriority(IntEnum):
    """Expected use of a prefix, from the KV hints of its program; lower values are evicted first.

    `DROP`: no prompt can continue it. `DEMOTED`: the offload tier holds it too. `NORMAL`: nothing
    is known. `KEEP`: reuse is expected.
    """

    DROP = 0
    DEMOTED = 1
    NORMAL = 2
    KEEP = 3


@dataclass(slots=True, eq=False)
class RadixNode:
    """One or more whole pages of tokens that follow the parent's.

    Attributes:
        key: Token ids as int32 bytes.
        pages: Pages of their KV.
        parent: Parent node; None for the root and for an evicted node.
        children: Child nodes by the first page of their key.
        locks: Reference count: running sequences that end at or below this node.
        used: Tick of the last match or insert.
        used_at_s: Instant of the last match or insert.
        priority: Eviction priority by the program's KV hints.
        reuse_by_s: Latest instant of the expected reuse of a kept node; None if unknown.
        is_cut: Whether its end was evicted already, so that a reuse has to compute in any case.
        changes: Number of changes that can alter the length of a prefix match that ended here.
    """

    key: bytes
    pages: list[PageId]
    parent: RadixNode | None
    children: dict[bytes, RadixNode] = field(default_factory=dict)
    locks: int = 0
    used: int = 0
    used_at_s: float = 0.0
    priority: EvictionPriority = EvictionPriority.NORMAL
    reuse_by_s: float | None = None
    is_cut: bool = False
    changes: int = 0

    @property
    def is_free_leaf(self) -> bool:
        """Whether it can be evicted now."""
        return self.parent is not None and not self.children and self.locks == 0

    def path(self) -> tuple[bytes, list[PageId]]:
        """Key and pages of the whole prefix that ends here, from the root."""
        nodes = [self]
        while nodes[-1].parent is not None:
            nodes.append(nodes[-1].parent)
        nodes.reverse()
        pages = [page for one in nodes for page in one.pages]
        return b"".join(one.key for one in nodes), pages


@record
class PrefixLookup:
    """Length of a prefix match, with the means to check whether it still holds.

    Attributes:
        matched_tokens: Matched tokens.
        prompt_tokens: Tokens of the prompt.
        node: Last node reached, whole or in part.
        changes: `RadixNode.changes` of the node at that time.
    """

    matched_tokens: int
    prompt_tokens: int
    node: RadixNode
    changes: int

    @property
    def is_current(self) -> bool:
        """Whether a new lookup would match as much: a node is evicted before its parents."""
        return self.node.changes == self.changes
