"""Cache of encoded prefixes, bounded in number and in ids: the newest half survives."""

from __future__ import annotations

from itertools import chain

from agentrt.base.segments import History, Segment
from agentrt.prompt.composer import Composer
from agentrt.prompt.prefix import Prefix

MAX_PREFIXES = 20_000
MAX_IDS = 8_000_000
"""Number of ids of all cached prefixes together, each at its last segment: some 300 MB."""
MAX_FULL = 256
"""Number of prefixes with their ids in one piece: those that chats fork from."""
MAX_ROOTS = 256
"""Number of salts with cached prefixes; beyond it the oldest is dropped."""


class PrefixCache:
    """Maps a prefix and the next segment to the longer prefix.

    Attributes:
        misses: Number of segments encoded so far.
    """

    def __init__(
        self, composer: Composer, max_prefixes: int = MAX_PREFIXES, max_ids: int = MAX_IDS
    ) -> None:
        self._composer = composer
        self._max_young = max_prefixes // 2
        self._max_young_ids = max_ids // 2
        self._young_ids = 0
        self._young: dict[tuple[Prefix, Segment], Prefix] = {}
        self._old: dict[tuple[Prefix, Segment], Prefix] = {}
        self._full_ids: dict[Prefix, tuple[int, ...]] = {}
        self._roots: dict[tuple[History, str], Prefix] = {}
        self.misses = 0

    def __len__(self) -> int:
        """Number of cached prefixes."""
        return len(self._young) + len(self._old)

    def root(self, history: History, cache_salt: str = "") -> Prefix:
        """The empty prefix. Each salt has one of its own, so that prefixes are not shared."""
        key = (history, cache_salt)
        found = self._roots.get(key)
        if found is None:
            if len(self._roots) >= MAX_ROOTS:
                del self._roots[next(iter(self._roots))]
            found = self._roots[key] = Prefix(appends=history == "append")
        return found

    def extend(self, prefix: Prefix, segment: Segment) -> Prefix:
        """`prefix` with one more segment.

        Raises:
            LayoutMismatch: The layout does not hold for this segment.
        """
        key = (prefix, segment)
        found = self._young.get(key)
        if found is not None:
            return found
        found = self._old.get(key)
        if found is None:
            self.misses += 1
            found = self._composer.extend(prefix, segment)
        if len(self._young) >= self._max_young or self._young_ids >= self._max_young_ids:
            self._old, self._young, self._young_ids = self._young, {}, 0
        self._young[key] = found
        self._young_ids += len(found.ids)
        return found

    def token_ids(self, prefix: Prefix) -> tuple[int, ...]:
        """All ids of `prefix`, from the start."""
        parts: list[tuple[int, ...]] = []
        node: Prefix | None = prefix
        while node is not None:
            full = self._full_ids.pop(node, None)
            if full is not None:
                self._full_ids[node] = full  # the most recent now
                parts.append(full)
                break
            if node.ids:
                parts.append(node.ids)
            node = node.parent
        ids = tuple(chain.from_iterable(reversed(parts)))
        if len(self._full_ids) >= MAX_FULL:
            oldest, *_ = self._full_ids  # in one step: other threads encode too
            self._full_ids.pop(oldest, None)
        self._full_ids[prefix] = ids
        return ids
