"""Prefixes already encoded, bounded in number: the newest half survives."""

from __future__ import annotations

from agentrt.base.segments import History, Segment
from agentrt.prompt.composer import Composer
from agentrt.prompt.prefix import Prefix

MOST_PREFIXES = 20_000
MOST_WHOLE = 256
"""Prefixes whose ids are kept in one piece: those that chats fork from."""
MOST_ROOTS = 256
"""Salts whose prefixes are remembered; of further ones the oldest is forgotten."""


class PrefixCache:
    """Prefix and next segment -> the longer prefix.

    Attributes:
        misses: Segments that had to be encoded so far.
    """

    def __init__(self, composer: Composer, most: int = MOST_PREFIXES) -> None:
        self._composer = composer
        self._most = most // 2
        self._young: dict[tuple[Prefix, Segment], Prefix] = {}
        self._old: dict[tuple[Prefix, Segment], Prefix] = {}
        self._whole: dict[Prefix, tuple[int, ...]] = {}
        self._roots: dict[tuple[History, str], Prefix] = {}
        self.misses = 0

    def root(self, history: History, cache_salt: str = "") -> Prefix:
        """The empty prefix. Each salt has one of its own: what it was extended by tells nothing."""
        key = (history, cache_salt)
        found = self._roots.get(key)
        if found is None:
            if len(self._roots) >= MOST_ROOTS:
                del self._roots[next(iter(self._roots))]
            found = self._roots[key] = Prefix(appends=history == "append")
        return found

    def extended(self, prefix: Prefix, segment: Segment) -> Prefix:
        """`prefix` and one more segment.

        Raises:
            Irregular: The layout does not hold for it.
        """
        key = (prefix, segment)
        found = self._young.get(key)
        if found is not None:
            return found
        found = self._old.get(key)
        if found is None:
            self.misses += 1
            found = self._composer.extended(prefix, segment)
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = found
        return found

    def token_ids(self, prefix: Prefix) -> tuple[int, ...]:
        """All ids of `prefix`, from the start."""
        parts: list[tuple[int, ...]] = []
        node: Prefix | None = prefix
        while node is not None:
            whole = self._whole.pop(node, None)
            if whole is not None:
                self._whole[node] = whole  # the most recent now
                parts.append(whole)
                break
            if node.ids:
                parts.append(node.ids)
            node = node.parent
        gathered: list[int] = []
        for part in reversed(parts):
            gathered += part
        ids = tuple(gathered)
        if len(self._whole) >= MOST_WHOLE:
            del self._whole[next(iter(self._whole))]
        self._whole[prefix] = ids
        return ids
