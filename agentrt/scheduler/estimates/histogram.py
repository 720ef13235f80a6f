"""Decayed histogram of one learned quantity, in 64 logarithmic buckets.

Each observation decays the earlier ones by `DECAY`, so about the last hundred count. Instead of
decaying 64 buckets, the weight of the next observation grows: adding one costs the same whatever
there is. All sums are linear in the observations, so two processes can merge what they learned
separately (`agentrt.runtime.estimate_store`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentrt.scheduler.estimates.row import DECAY, NEGLIGIBLE

BUCKETS = 64
SMALLEST, LARGEST = 1e-4, 1e6
_LOG_SMALLEST = math.log(SMALLEST)
_PER_LOG = BUCKETS / (math.log(LARGEST) - _LOG_SMALLEST)
_RESCALE_AT = 1e12


@dataclass(slots=True, eq=False)
class DecayedHistogram:
    """Decayed sample of a positive quantity: seconds or tokens.

    Values below 0.0001 count as 0.0001 in quantiles and logarithms, and as they are in the mean.

    Attributes:
        count: Observations ever, including those of other processes.
    """

    count: int = 0
    _unit: float = 1.0  # weight of the next observation
    _weight: float = 0.0
    _total: float = 0.0
    _log: float = 0.0
    _square: float = 0.0
    _weights: dict[int, float] = field(default_factory=dict)
    _logs: dict[int, float] = field(default_factory=dict)  # sums of logarithms by bucket
    _cached: dict[float, float] = field(default_factory=dict)

    def add_value(self, value: float) -> None:
        """Add one observation.

        Raises:
            ValueError: The value is negative or no number.
        """
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{value} cannot be learned from: no finite quantity of 0 or more")
        unit = self._unit
        log = math.log(value) if value > SMALLEST else _LOG_SMALLEST
        bucket = int((log - _LOG_SMALLEST) * _PER_LOG)
        if bucket >= BUCKETS:
            bucket = BUCKETS - 1
        self.count += 1
        self._weight += unit
        self._total += unit * value
        self._log += unit * log
        self._square += unit * log * log
        self._weights[bucket] = self._weights.get(bucket, 0.0) + unit
        self._logs[bucket] = self._logs.get(bucket, 0.0) + unit * log
        self._unit = unit / DECAY
        if self._cached:
            self._cached = {}
        if self._unit > _RESCALE_AT:
            self._rescale()

    @property
    def mean(self) -> float:
        """Weighted mean; 0.0 without observations."""
        return self._total / self._weight if self._weight else 0.0

    @property
    def log_mean(self) -> float:
        """Mean of the natural logarithms."""
        return self._log / self._weight if self._weight else _LOG_SMALLEST

    @property
    def log_var(self) -> float:
        """Variance of the natural logarithms."""
        if not self._weight:
            return 0.0
        return max(0.0, self._square / self._weight - self.log_mean**2)

    @property
    def p50(self) -> float:
        """Median."""
        return self.quantile(0.5)

    @property
    def p90(self) -> float:
        """Ninth decile."""
        return self.quantile(0.9)

    def quantile(self, share: float) -> float:
        """The value that `share` of the sample does not exceed, to the width of a bucket (43 %).

        Args:
            share: Quantile in (0, 1].
        """
        known = self._cached.get(share)
        if known is None:
            known = self._cached[share] = self._quantile(share)
        return known

    def to_sums(self) -> dict[str, float]:
        """Plain numbers, with weight 1 for the latest observation; linear in observations."""
        scale = 1.0 / (self._unit * DECAY)
        found = {
            "weight": self._weight * scale,
            "total": self._total * scale,
            "log": self._log * scale,
            "square": self._square * scale,
        }
        for bucket, weight in self._weights.items():
            found[f"w{bucket}"] = weight * scale
            found[f"l{bucket}"] = self._logs[bucket] * scale
        return found

    @classmethod
    def from_sums(cls, count: int, sums: Mapping[str, float]) -> DecayedHistogram:
        """Histogram from the result of `to_sums`.

        Raises:
            ValueError: The sums are no such result.
        """
        histogram = cls()
        histogram.count = count
        try:
            histogram._unit = 1.0 / DECAY
            histogram._weight = float(sums["weight"])
            histogram._total = float(sums["total"])
            histogram._log = float(sums["log"])
            histogram._square = float(sums["square"])
            for name, value in sums.items():
                if name[0] in "wl" and name[1:].isdigit():
                    buckets = histogram._weights if name[0] == "w" else histogram._logs
                    buckets[int(name[1:])] = float(value)
        except KeyError as error:
            raise ValueError(f"these are no sums of a sample: {error}") from None
        weights = histogram._weights
        for bucket in [one for one, weight in weights.items() if abs(weight) < NEGLIGIBLE]:
            del weights[bucket]  # a merge leaves traces of decayed buckets
            histogram._logs.pop(bucket, None)
        if count < 1 or histogram._weight <= 0.0 or min(weights.values(), default=0.0) <= 0.0:
            raise ValueError("these are no sums of a sample: it weighs nothing")
        if weights.keys() != histogram._logs.keys() or not weights.keys() <= set(range(BUCKETS)):
            raise ValueError("these are no sums of a sample: its buckets are others")
        return histogram

    def _quantile(self, share: float) -> float:
        wanted = share * self._weight * (1.0 - 1e-12)
        last = 0.0
        for bucket, weight in sorted(self._weights.items()):
            last = math.exp(self._logs[bucket] / weight)
            wanted -= weight
            if wanted <= 0.0:
                break
        return last

    def _rescale(self) -> None:
        scale = 1.0 / self._unit
        self._unit = 1.0
        self._weight *= scale
        self._total *= scale
        self._log *= scale
        self._square *= scale
        self._weights = {bucket: weight * scale for bucket, weight in self._weights.items()}
        self._logs = {bucket: logs * scale for bucket, logs in self._logs.items()}
