"""Compiled grammars that several constraints share; the last used are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GrammarCache(Generic[K, V]):
    """Values by their keys. Thread-safe.

    Args:
        most: Number of values that are kept.

    Attributes:
        compiled: Number of values made so far.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[K, V] = OrderedDict()
        self.compiled = 0

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made in this thread if it is not known."""
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
        made = make()
        with self._lock:
            self.compiled += 1
            self._made[key] = made
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return made

    def unknown(self, keys: Iterable[K]) -> list[K]:
        """The keys without a value."""
        with self._lock:
            return [key for key in keys if key not in self._made]
