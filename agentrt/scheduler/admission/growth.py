"""Growth of admitted runs, and the memory that it leaves to shorter ones until then.

An admitted run has committed its peak, which it reaches at its end. A run that ends sooner meets
only a part of that growth: of a run with eight seconds to go, a run of one second meets an eighth.
The rest of what is set aside for the longer run is free for the shorter one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class LateGrowth:
    """Growth that is still to come, and how much of it comes after an instant.

    Args:
        growing: Admitted runs, each with its expected remaining seconds and the tokens by which it
            is expected to grow until then. Runs of unknown length are left out.

    Example:
        >>> late = LateGrowth([(8.0, 800.0), (2.0, 100.0)])
        >>> late.after(1.0)
        750.0
    """

    __slots__ = ("_rests_s", "_slopes", "_tokens")

    def __init__(self, growing: Iterable[tuple[float, float]]) -> None:
        known = sorted((rest_s, tokens) for rest_s, tokens in growing if rest_s > 0 and tokens > 0)
        self._rests_s = [rest_s for rest_s, _ in known]
        # Sums over the runs from each on, the longest last, so that a lookup takes a bisection.
        self._tokens = _sums_from(tokens for _, tokens in known)
        self._slopes = _sums_from(tokens / rest_s for rest_s, tokens in known)

    def after(self, seconds: float) -> float:
        """Tokens of growth that are expected later than in so many seconds."""
        at = bisect_right(self._rests_s, seconds)
        return max(0.0, self._tokens[at] - seconds * self._slopes[at])


def _sums_from(values: Iterable[float]) -> list[float]:
    """Sum of the values from each position on, and 0.0 behind the last."""
    return list(accumulate(reversed(list(values)), initial=0.0))[::-1]
