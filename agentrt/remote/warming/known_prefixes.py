"""The prefixes that an engine's cache is believed to have, by what it was sent."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.scheduler.placement.held_blocks import id_key
from agentrt.scheduler.placement.prefix_map import PrefixMap

_ENGINE = "engine"
_ID_BYTES = 4


class KnownPrefixes:
    """Prefixes of one engine. A fleet counts as one: a prefix is known if any server has it.

    Args:
        kv_tokens: Capacity of its KV cache in tokens; 0 if unknown.

    Example:
        >>> known = KnownPrefixes()
        >>> known.note(range(640))
        >>> known.reached_tokens(range(1000)), known.reached_tokens(range(1000), "salt")
        (640, 0)
    """

    def __init__(self, kv_tokens: int = 0) -> None:
        self._map = PrefixMap(float(_ID_BYTES))
        self._map.add(_ENGINE, float(kv_tokens))

    def reached_tokens(self, token_ids: Sequence[int], cache_salt: str = "") -> int:
        """Tokens of a prompt that the cache is believed to have."""
        salt_bytes = len(id_key((), cache_salt))
        found = self._map.match(id_key(token_ids, cache_salt)).get(_ENGINE, 0)
        return max(0, found - salt_bytes) // _ID_BYTES

    def note(self, token_ids: Sequence[int], cache_salt: str = "") -> None:
        """Note that the engine has computed a prefix."""
        self._map.settle(self._map.record(_ENGINE, id_key(token_ids, cache_salt)))

    def forget_from(self, token_ids: Sequence[int], cache_salt: str, from_tokens: int) -> None:
        """Note that the engine has no more than the first tokens of a prefix."""
        key = id_key(token_ids, cache_salt)
        self._map.cut(_ENGINE, key, len(key) - (len(token_ids) - from_tokens) * _ID_BYTES)

    def forget_all(self) -> None:
        """Note that the engine was lost, and with it its cache."""
        self._map.forget(_ENGINE)
