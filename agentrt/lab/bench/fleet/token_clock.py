"""A clock of tokens that servers have put out: other load on the machine does not move it."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable

from agentrt.lab.errors import BenchFailed

_LOOK_S = 0.25

STILL_S = 120.0
"""Time after which servers that put out nothing have failed: no prompt of a bench takes so long."""


class TokenClock:
    """Tokens served over the seconds of a play, read from the servers' own counters.

    Between two looks tokens are taken to come evenly.

    Args:
        tokens: Reads the tokens that all servers have put out.
        now_s: Clock of the looks, in seconds.
        on_look: Called after each look with the tokens since the first one.
        on_failure: Called with the failure while the block goes on, which it should end.
        still_s: Time without a token after which the servers have failed.

    Raises:
        BenchFailed: The counters cannot be read, or do not move; raised at the end of the block.
    """

    def __init__(
        self,
        tokens: Callable[[], int],
        now_s: Callable[[], float] = time.monotonic,
        *,
        on_look: Callable[[float], None] | None = None,
        on_failure: Callable[[BenchFailed], None] | None = None,
        still_s: float = STILL_S,
    ) -> None:
        self._tokens, self._now_s = tokens, now_s
        self._on_look, self._on_failure = on_look, on_failure
        self._still_s, self._moved_at_s = still_s, 0.0
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
        if self._failure is not None:
            raise self._failure
        if kind is None:
            self.look()

    def look(self) -> None:
        """Read the tokens served so far."""
        served = float(self._tokens())
        now_s = self._now_s()
        if not self._served or served != self._served[-1]:
            self._moved_at_s = now_s
        elif now_s - self._moved_at_s >= self._still_s:
            raise BenchFailed(
                f"the servers have put out nothing for {self._still_s:.0f} s",
                hint="See whether all of their processes live, then go on with --resume",
            )
        self._at_s.append(now_s)
        self._served.append(served)
        if self._on_look is not None:
            self._on_look(served - self._served[0])

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
            if self._on_failure is not None:
                self._on_failure(failure)
