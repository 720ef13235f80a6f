"""A clock of tokens that servers have put out: other load on the machine does not move it."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable

from agentrt.lab.errors import BenchFailed

_LOOK_S = 0.25


class TokenClock:
    """Tokens served over the seconds of a play, read from the servers' own counters.

    Between two looks tokens are taken to come evenly.

    Args:
        tokens: Reads the tokens that all servers have put out.
        now_s: Clock of the looks, in seconds.

    Raises:
        BenchFailed: The counters cannot be read, raised at the end of the block.
    """

    def __init__(
        self, tokens: Callable[[], int], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._tokens, self._now_s = tokens, now_s
        self._at_s: list[float] = []
        self._served: list[float] = []
        self._ended = threading.Event()
        self._failure: BenchFailed | None = None
        self._thread = threading.Thread(target=self._watch, name="token clock", daemon=True)

    def __enter__(self) -> TokenClock:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is not None:
            return
        if self._failure is not None:
            raise self._failure
        self.look()

    def look(self) -> None:
        """Read the tokens served so far."""
        served = float(self._tokens())
        self._at_s.append(self._now_s())
        self._served.append(served)

    def read(self, at_s: float) -> float:
        """Tokens served from the first look to an instant.

        Args:
            at_s: Seconds after the first look.

        Example:
            >>> ticks, counts = iter([10.0, 12.0]), iter([100, 140])
            >>> clock = TokenClock(lambda: next(counts), lambda: next(ticks))
            >>> clock.look(); clock.look()
            >>> clock.read(0.5)
            10.0
        """
        instant = self._at_s[0] + at_s
        after = min(max(1, bisect_right(self._at_s, instant)), len(self._at_s) - 1)
        first_s, last_s = self._at_s[after - 1], self._at_s[after]
        first, last = self._served[after - 1], self._served[after]
        share = (instant - first_s) / (last_s - first_s) if last_s > first_s else 1.0
        return first + min(max(share, 0.0), 1.0) * (last - first) - self._served[0]

    def between(self, began_s: float, ended_s: float) -> float:
        """Tokens served between two instants, in seconds after the first look."""
        return self.read(ended_s) - self.read(began_s)

    def _watch(self) -> None:
        try:
            while not self._ended.wait(_LOOK_S):
                self.look()
        except BenchFailed as failure:
            self._failure = failure
