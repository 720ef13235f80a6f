"""The map of prefixes: which worker of a fleet holds the KV of which prompts, as far as we know.

A radix tree over what was sent. Keys are bytes: token ids as int32, or the text of the messages.
Engines share KV by the block, so nodes hold whole blocks. Comparing and searching bytes is fast
enough in Python: a prompt of 8,192 tokens is placed among 10^6 in 12 us, and noted in 13. These are
medians of `python -m tests.scheduler.placement.placing_time`.

A map of what was sent believes more than is true, since workers evict. Each worker has a limit, and
forgets least recently used blocks beyond it, as engines do. Reports of cached tokens correct it: if
an engine computed a prefix again that was last used at an instant, it has evicted all that was used
before that instant, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentrt.base.errors import InternalError, UsageError
from agentrt.base.record import record
from agentrt.kv_cache.node import common_bytes
from agentrt.scheduler.placement.map_node import HeldPrefixes, MapNode

UNKNOWN_KV_TOKENS = 1_000_000
"""Tokens that a worker is believed to hold at most if it does not say."""

MOST_NODES = 1 << 15
"""Nodes that a worker is believed to hold at most: bounds the memory of many short prompts."""

_LEAST_SHARE = 1 / 16
"""Share of the stated capacity that a worker is believed to have, whatever it reports."""

_REGAINED_SHARE = 1 / 32
"""Growth of a limit that reports have lowered, with each report that confirms a full map."""


@record
class SentPrefix:
    """A prompt that was sent, as the map saw it before.

    Attributes:
        worker: The worker.
        tick: Number of the request; larger ones were sent later.
        believed_bytes: Bytes of the prefix that the worker was believed to hold.
        uses: Ends of the nodes of that prefix in bytes, with the tick of their last use before; 0
            if the worker may not have computed them by then.
    """

    worker: str
    tick: int
    believed_bytes: int
    uses: tuple[tuple[int, int], ...]


class PrefixMap:
    """Prefixes that each worker is believed to hold.

    Args:
        bytes_per_token: Bytes of a key that make a token: 4.0 for ids, the learned ratio for text.
        block_bytes: Bytes that engines share at least; a shorter common prefix is none.

    Raises:
        UsageError: A block without bytes, or a token without.

    Example:
        >>> prefixes = PrefixMap()
        >>> prefixes.add("a")
        >>> sent = prefixes.record("a", b"x" * 640)
        >>> prefixes.match(b"x" * 128 + b"y" * 128)
        {'a': 128}
    """

    def __init__(self, bytes_per_token: float = 4.0, block_bytes: int = 64) -> None:
        if bytes_per_token <= 0 or block_bytes < 1:
            raise UsageError(
                f"a prefix map of {bytes_per_token} bytes a token in blocks of {block_bytes} bytes",
                hint="Both are positive",
            )
        self.bytes_per_token = bytes_per_token
        self._block = block_bytes
        self._root = MapNode(b"", None, 0)
        self._workers: dict[str, HeldPrefixes] = {}
        self._tick = 0

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers of the map."""
        return tuple(self._workers)

    def add(self, worker: str, kv_tokens: float = 0.0) -> None:
        """Add a worker, or note another capacity of one.

        Args:
            worker: Name of the worker.
            kv_tokens: Tokens that its KV cache holds; 0 if unknown.
        """
        limit = int((kv_tokens or UNKNOWN_KV_TOKENS) * self.bytes_per_token)
        held = self._workers.get(worker)
        if held is None:
            self._workers[worker] = HeldPrefixes(limit)
        elif held.stated_bytes != limit:
            held.stated_bytes = held.limit_bytes = limit
            self._shrink(worker, held)

    def remove(self, worker: str) -> None:
        """Remove a worker with all that it held; one that is not there is ignored."""
        if worker in self._workers:
            self.forget(worker)
            del self._workers[worker]

    def forget(self, worker: str) -> None:
        """Note that a worker holds nothing any more: it was started again, or cleared its cache."""
        held = self._held(worker)
        while (node := held.oldest(worker)) is not None:
            self._drop(worker, held, node)
        held.unsettled.clear()

    def match(self, key: bytes) -> dict[str, int]:
        """Bytes of the longest known prefix of `key` by worker, in whole blocks; changes nothing.

        Workers that hold none are left out.
        """
        found: dict[str, int] = {}
        node, at = self._root, 0
        holders: dict[str, int] = {}
        block, end = self._block, len(key)
        while at < end:
            child = node.children.get(key[at : at + block])
            if child is None:
                break
            if len(child.used) != len(holders):  # those of a child are among those of its parent
                for worker in holders.keys() - child.used.keys():
                    found[worker] = at
            holders = child.used
            same = common_bytes(child.key, key[at : at + len(child.key)], block)
            at += same
            if same < len(child.key):
                break
            node = child
        for worker in holders:
            found[worker] = at
        return found

    def record(self, worker: str, key: bytes) -> SentPrefix:
        """Note that a prompt goes to a worker, which will hold all of its whole blocks.

        Raises:
            InternalError: The worker is not in the map.
        """
        held = self._held(worker)
        self._tick += 1
        tick = self._tick
        node, at = self._root, 0
        end = len(key) - len(key) % self._block
        believed = 0
        uses: list[tuple[int, int]] = []
        while at < end:
            child = node.children.get(key[at : at + self._block])
            if child is None:
                child = self._grow(node, key[at:end])
            same = common_bytes(child.key, key[at : min(end, at + len(child.key))], self._block)
            if same < len(child.key):
                child = self._split(child, same)
            at += same
            before = child.used.get(worker)
            if before is None:
                held.add(worker, child, tick)
            else:
                child.used[worker] = tick
                uses.append((at, 0 if before in held.unsettled else before))
                believed = at
            node = child
        held.unsettled.add(tick)
        self._shrink(worker, held)
        return SentPrefix(worker, tick, believed, tuple(uses))

    def settle(self, sent: SentPrefix) -> None:
        """Note that a prompt has been computed, or will not be: reports can correct it now."""
        held = self._workers.get(sent.worker)
        if held is not None:
            held.unsettled.discard(sent.tick)

    def confirm(self, sent: SentPrefix, cached_bytes: int, slack_bytes: int = 0) -> None:
        """Correct the map by what an engine reports to have found of a prompt.

        A shortfall of up to a block says nothing: engines compute the last token again. Neither
        does one of a prefix whose request was still under way.

        Args:
            sent: The prompt.
            cached_bytes: Bytes of its prefix that were in the KV cache.
            slack_bytes: Shortfall beyond a block that says nothing either, such as the rest of a
                larger block of the engine.
        """
        worker = sent.worker
        held = self._workers.get(worker)
        if held is None:
            return
        if cached_bytes >= sent.believed_bytes - self._block - slack_bytes:
            if held.limit_bytes < held.stated_bytes and 8 * held.held_bytes > 7 * held.limit_bytes:
                grown = held.limit_bytes + int(held.limit_bytes * _REGAINED_SHARE)
                held.limit_bytes = min(held.stated_bytes, grown)
            return
        last = next(tick for end_bytes, tick in sent.uses if end_bytes > cached_bytes)
        if not last:
            return
        while (node := held.oldest(worker)) is not None and node.used[worker] <= last:
            self._drop(worker, held, node)
        least = int(held.stated_bytes * _LEAST_SHARE)
        held.limit_bytes = max(least, min(held.limit_bytes, held.held_bytes))
        self._shrink(worker, held)

    def cut(self, worker: str, key: bytes, from_bytes: int = 0) -> None:
        """Note that a worker holds no more than the first bytes of a prefix: a KV event.

        Args:
            worker: The worker.
            key: The prefix. What continues it is gone, too.
            from_bytes: Bytes of it that the worker still holds.
        """
        held = self._held(worker)
        node, at = self._root, 0
        keep = from_bytes - from_bytes % self._block
        while at < len(key):
            child = node.children.get(key[at : at + self._block])
            if child is None or worker not in child.used:
                return
            same = common_bytes(child.key, key[at : at + len(child.key)], self._block)
            if at + same > keep:
                if at < keep:
                    self._split(child, keep - at)
                for gone in reversed(list(_below(child, worker))):
                    self._drop(worker, held, gone)
                return
            if same < len(child.key):
                return
            node, at = child, at + same

    def held_tokens(self, worker: str) -> float:
        """Tokens that a worker is believed to hold."""
        return self._held(worker).held_bytes / self.bytes_per_token

    def limit_tokens(self, worker: str) -> float:
        """Tokens that a worker is believed to be able to hold."""
        return self._held(worker).limit_bytes / self.bytes_per_token

    def _held(self, worker: str) -> HeldPrefixes:
        held = self._workers.get(worker)
        if held is None:
            raise InternalError(f"worker {worker!r} is not in the prefix map; add() comes first")
        return held

    def _grow(self, node: MapNode, rest: bytes) -> MapNode:
        child = MapNode(rest, node, node.end_bytes + len(rest))
        node.children[rest[: self._block]] = child
        return child

    def _split(self, node: MapNode, at: int) -> MapNode:
        """Split a node behind `at` bytes, between blocks; returns the upper part."""
        parent = node.parent
        assert parent is not None, "the root has no key"
        upper = MapNode(node.key[:at], parent, node.end_bytes - len(node.key) + at, dict(node.used))
        parent.children[node.key[: self._block]] = upper
        node.key, node.parent = node.key[at:], upper
        upper.children[node.key[: self._block]] = node
        for worker in upper.used:
            self._workers[worker].push(worker, upper)
        return upper

    def _drop(self, worker: str, held: HeldPrefixes, node: MapNode) -> None:
        """Note that a worker does not hold a node; remove it if no other does."""
        held.drop(worker, node)
        if not node.used and node.parent is not None:
            del node.parent.children[node.key[: self._block]]
            node.parent = None

    def _shrink(self, worker: str, held: HeldPrefixes) -> None:
        """Forget what a worker has evicted by now, the oldest first, and of a node its end."""
        while held.held_bytes > held.limit_bytes or held.nodes > MOST_NODES:
            node = held.oldest(worker)
            assert node is not None, "what is held has an entry"
            kept = len(node.key) - (held.held_bytes - held.limit_bytes)
            kept -= kept % self._block
            if 0 < kept < len(node.key) and held.nodes <= MOST_NODES:
                self._split(node, kept)
            self._drop(worker, held, node)


def _below(node: MapNode, worker: str) -> Iterator[MapNode]:
    """A node and all that continue it and are held by a worker, parents first."""
    todo = [node]
    while todo:
        here = todo.pop()
        yield here
        todo.extend(child for child in here.children.values() if worker in child.used)
