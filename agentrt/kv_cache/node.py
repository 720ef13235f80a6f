"""A node of the radix tree, and its eviction priority."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

from agentrt.base.ids import PageId

TOKEN_BYTES = 4
_SALTED_BYTES = 64
"""Bytes at the start of a key that a salt changes: they fill a page of 16 tokens."""
_SALT_BIT = 0x80
"""Highest bit of each salted token, which no token id has."""


def key_of(token_ids: Sequence[int], cache_salt: str = "", at: int = 0) -> bytes:
    """Token ids as a key of the tree: int32 bytes.

    A salt is mixed into the first tokens of the prompt. Keys of different salts differ in these, so
    that a common prefix as long as they are belongs to one salt; a shorter one may be chance. No
    token of a salted key equals one of an unsalted key.

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


def kv_salt(cache_salt: str, adapter: str) -> str:
    r"""The salt under which KV of a request is kept: KV of one adapter is wrong for any other.

    Two requests have the same one only if salts and adapters are the same: zeros of a salt are
    doubled, and one alone stands before an adapter.

    Args:
        cache_salt: Salt of the request.
        adapter: Name of its adapter; "" is the model as it is.

    Example:
        >>> kv_salt("", "judge") == kv_salt("\0ajudge", "")
        False
    """
    salt = cache_salt.replace("\0", "\0\0")
    return f"{salt}\0a{adapter}" if adapter else salt


def proves_prefix(key: bytes, same_bytes: int) -> bool:
    """Whether keys that agree in so many of their first bytes belong to prompts that do.

    Salted keys may agree in a few tokens by chance, so the whole salted part is needed.
    """
    is_salted = bool(key[TOKEN_BYTES - 1] & _SALT_BIT)
    return same_bytes >= (_SALTED_BYTES if is_salted else TOKEN_BYTES)


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
    pad = bytearray(hashlib.blake2b(salt, digest_size=_SALTED_BYTES).digest())
    for at in range(TOKEN_BYTES - 1, _SALTED_BYTES, TOKEN_BYTES):  # keys are little-endian
        pad[at] |= _SALT_BIT
    return bytes(pad)


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
    """One or more whole pages of tokens that follow the parent's, or a partial page: a leaf.

    Attributes:
        key: Token ids as int32 bytes.
        pages: Pages of their KV.
        parent: Parent node; None for the root and for an evicted node.
        children: Child nodes by the first page of their key.
        first_pages: Keys of `children`, sorted.
        locks: Reference count: running sequences that end at or below this node.
        used: Tick of the last match or insert.
        used_at_s: Instant of the last match or insert.
        priority: Eviction priority by the program's KV hints.
        reuse_by_s: Latest instant of the expected reuse of a kept node; None if unknown.
        is_cut: Whether its end was evicted already, so that a reuse has to compute in any case.
        changes: Number of changes that can alter the length of a prefix match that ended here.
        is_lent: Whether the page belongs to a running sequence, which goes on to fill it.
    """

    key: bytes
    pages: list[PageId]
    parent: RadixNode | None
    children: dict[bytes, RadixNode] = field(default_factory=dict)
    first_pages: list[bytes] = field(default_factory=list)
    locks: int = 0
    used: int = 0
    used_at_s: float = 0.0
    priority: EvictionPriority = EvictionPriority.NORMAL
    reuse_by_s: float | None = None
    is_cut: bool = False
    changes: int = 0
    is_lent: bool = False

    @property
    def is_free_leaf(self) -> bool:
        """Whether it can be evicted now."""
        parent, children = self.parent, self.children
        return parent is not None and not children and self.locks == 0 and not self.is_lent

    def add_child(self, first_page: bytes, child: RadixNode) -> None:
        """Add a child that begins with a new first page, or with a part of one."""
        self.children[first_page] = child
        insort(self.first_pages, first_page)
        self.changes += 1

    def remove_child(self, first_page: bytes) -> None:
        """Remove the child of this first page."""
        del self.children[first_page]
        del self.first_pages[bisect_left(self.first_pages, first_page)]
        self.changes += 1

    def nearest_child(self, rest: bytes) -> tuple[RadixNode | None, int]:
        """The child with the longest common prefix with `rest`, within its first page.

        Args:
            rest: The part of a key behind this node.

        Returns:
            The child, and the bytes of whole tokens that it shares; (None, 0) if there is none.
        """
        # In sorted order, whatever lies between two keys shares their common prefix.
        behind = bisect_right(self.first_pages, rest)
        nearest, longest = None, 0
        for first_page in self.first_pages[max(0, behind - 1) : behind + 1]:
            same = common_bytes(first_page, rest, TOKEN_BYTES)
            if same > longest:
                nearest, longest = self.children[first_page], same
        return nearest, longest

    def path(self) -> tuple[bytes, list[PageId]]:
        """Key and pages of the whole prefix that ends here, from the root."""
        nodes = [self]
        while nodes[-1].parent is not None:
            nodes.append(nodes[-1].parent)
        nodes.reverse()
        pages = [page for one in nodes for page in one.pages]
        return b"".join(one.key for one in nodes), pages
