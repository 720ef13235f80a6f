"""The blocks of one worker's KV cache, folded from its events into changes of the prefix map.

Engines name a block by a hash of all tokens up to its end, so the chain of its parents is the
prefix that ends with it. Blocks are found from the beginning of a prompt on: if one is gone, what
continues it is of no use, though the engine may still hold it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from agentrt.base.record import record

MOST_BLOCKS = 1 << 20
"""Blocks of a worker that are known at most; the oldest are forgotten beyond it."""

BlockHash = int | bytes


@record
class StoredBlocks:
    """Blocks that an engine has computed, each the parent of the next one.

    Attributes:
        hashes: Names of the blocks.
        parent: The block before the first of them; None at the beginning of a prompt.
        token_ids: Tokens of all of them, shared out evenly.
        cache_salt: Salt of the prompt; it counts at the beginning of one.
    """

    hashes: tuple[BlockHash, ...]
    parent: BlockHash | None
    token_ids: tuple[int, ...]
    cache_salt: str = ""


@record
class RemovedBlocks:
    """Blocks that an engine no longer holds."""

    hashes: tuple[BlockHash, ...]


@record
class ClearedBlocks:
    """An engine no longer holds any block."""


KvEvent = StoredBlocks | RemovedBlocks | ClearedBlocks


@record
class PrefixChange:
    """A change of what a worker holds, in keys of the prefix map.

    Attributes:
        what: "held": all of the key. "cut": the first bytes of the key at most. "cleared": nothing.
        key: A prefix, as `id_key` writes it.
        from_bytes: Bytes of a key that is cut which may still be held.
    """

    what: Literal["held", "cut", "cleared"]
    key: bytes = b""
    from_bytes: int = 0


_Block = tuple[BlockHash | None, bytes]
"""The parent of a block, and its tokens as bytes, with the salt before the first ones."""


class HeldBlocks:
    """The blocks that one worker is known to hold.

    Args:
        most_blocks: Blocks that are known at most.

    Example:
        >>> blocks = HeldBlocks()
        >>> stored, _ = StoredBlocks((1, 2), None, (7, 8, 9, 10)), blocks.fold([])
        >>> [change.what for change in blocks.fold([stored])]
        ['held']
        >>> (gone,) = blocks.fold([RemovedBlocks((2,))])
        >>> gone.what, gone.key == id_key((7, 8, 9, 10)), gone.from_bytes
        ('cut', True, 8)
    """

    def __init__(self, most_blocks: int = MOST_BLOCKS) -> None:
        self._most_blocks = most_blocks
        self._blocks: dict[BlockHash, _Block] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def fold(self, events: Sequence[KvEvent]) -> list[PrefixChange]:
        """Take up events in their order; returns what they change.

        Blocks are dropped that belong to no known prompt, such as those behind a block that was
        missed: what is not known is not believed either.
        """
        changes: list[PrefixChange] = []
        for kind, run in groupby(events, type):
            if kind is ClearedBlocks:
                self._blocks.clear()
                changes.append(PrefixChange("cleared"))
            elif kind is StoredBlocks:
                changes += self._store([one for one in run if isinstance(one, StoredBlocks)])
            else:
                changes += self._remove([one for one in run if isinstance(one, RemovedBlocks)])
        return changes

    def _store(self, run: Sequence[StoredBlocks]) -> Iterator[PrefixChange]:
        # Several events may be one prompt, such as one for each block: only its end is a change.
        ends: dict[BlockHash, None] = {}
        for event in run:
            size = len(event.token_ids) // max(1, len(event.hashes))
            if not size or size * len(event.hashes) != len(event.token_ids):
                continue
            parent, salt = event.parent, "" if event.parent is not None else event.cache_salt
            for at, name in enumerate(event.hashes):
                key = id_key(event.token_ids[at * size : (at + 1) * size], "" if at else salt)
                self._blocks.pop(name, None)  # the newest is the last one
                self._blocks[name] = (parent, key)
                if parent is not None:
                    ends.pop(parent, None)
                ends[name] = None
                parent = name
        while len(self._blocks) > self._most_blocks:
            del self._blocks[next(iter(self._blocks))]
        for end in ends:
            if (chain := self._chain(end)) is not None:
                yield PrefixChange("held", b"".join(key for _, key in chain))

    def _remove(self, run: Sequence[RemovedBlocks]) -> Iterator[PrefixChange]:
        gone = dict.fromkeys(name for event in run for name in event.hashes)
        parents = {self._blocks[name][0] for name in gone if name in self._blocks}
        found: list[PrefixChange] = []
        for end in gone:
            if end in parents or (chain := self._chain(end)) is None:
                continue
            kept = 0
            for name, key in chain:
                if name in gone:
                    break
                kept += len(key)
            found.append(PrefixChange("cut", b"".join(key for _, key in chain), kept))
        for name in gone:
            self._blocks.pop(name, None)
        yield from found

    def _chain(self, end: BlockHash) -> list[tuple[BlockHash, bytes]] | None:
        """The blocks of the prompt up to one, from its beginning; None if one is not known."""
        chain: list[tuple[BlockHash, bytes]] = []
        name: BlockHash | None = end
        while name is not None:
            block = self._blocks.get(name)
            if block is None or len(chain) > len(self._blocks):  # no engine names blocks in a ring
                return None
            chain.append((name, block[1]))
            name = block[0]
        return chain[::-1]


def id_key(token_ids: Sequence[int], cache_salt: str = "") -> bytes:
    """The key of a prompt of token ids in the prefix map: prompts of other salts share nothing."""
    return cache_salt.encode("utf-8", "surrogatepass") + array("i", token_ids).tobytes()
