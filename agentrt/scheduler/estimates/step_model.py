"""Step model: the time of a step, learned from the steps of an engine.

    tau = base_s + prefill_s * prefill tokens + decode_s * decoded rows + kv_s * KV tokens

A decoding sequence has a row, and one more for each draft token and each forced token before it.

Linear least squares over the latest 2,000 steps, by normal equations to which each step is added
and later subtracted. No coefficient may be negative, since no work saves time. Coefficients that
the steps do not determine (all of one size, none reads KV) stay at the prior, which has the weight
of a fraction of one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import combinations

from agentrt.base.record import record
from agentrt.protocol.step_output import StepRecord

WINDOW = 2000
_PARTS = 4
_PRIOR_WEIGHT = 1e-3
_REFRESH = 50

Row = tuple[float, float, float, float]


@record
class StepTime:
    """Coefficients of a step's time.

    Attributes:
        base_s: Seconds of any step.
        prefill_s: Seconds per prompt token.
        decode_s: Seconds per decoded row.
        kv_s: Seconds per token of KV that is read.
    """

    base_s: float = 5e-3
    prefill_s: float = 5e-5
    decode_s: float = 2e-4
    kv_s: float = 1e-8

    def step_s(self, prefill_tokens: float, decode_tokens: float, kv_tokens: float = 0.0) -> float:
        """Seconds of a step."""
        return (
            self.base_s
            + self.prefill_s * prefill_tokens
            + self.decode_s * decode_tokens
            + self.kv_s * kv_tokens
        )

    def alone_s(self, uncached_tokens: float, output_tokens: float, context_tokens: float) -> float:
        """Seconds of a generation alone on the engine, with its prompt computed in one step.

        Args:
            uncached_tokens: Prompt tokens to compute.
            output_tokens: Output length; the first token comes with the prompt's step.
            context_tokens: Tokens of KV that each of its steps reads.
        """
        steps = max(1.0, output_tokens)
        return steps * (self.base_s + self.decode_s + self.kv_s * context_tokens) + (
            self.prefill_s * uncached_tokens
        )


PRIOR = StepTime()


class StepModel:
    """Learns a `StepTime` from steps as they come.

    Args:
        prior: Coefficients while the steps determine nothing else.
        window: Number of latest steps that count.
    """

    def __init__(self, prior: StepTime = PRIOR, window: int = WINDOW) -> None:
        self._prior = prior
        self._window = window
        self._steps: deque[tuple[Row, float]] = deque()
        self._products = _zeros()
        self._times = [0.0] * _PARTS
        self._added = 0
        self._known: StepTime | None = prior
        self._unsolved_steps = 0

    @classmethod
    def fit(cls, steps: Iterable[StepRecord], prior: StepTime = PRIOR) -> StepTime:
        """Fit the coefficients to all of these steps."""
        samples = list(steps)
        model = cls(prior, window=max(1, len(samples)))
        for step in samples:
            model.add_step(step)
        return model.step_time

    def __len__(self) -> int:
        return len(self._steps)

    def add_step(self, step: StepRecord) -> None:
        """Add one step; the oldest beyond the window is removed."""
        took_s = step.ended_at_s - step.started_at_s
        rows = step.decode_tokens + step.extra_rows
        self.add_sample(step.prefill_tokens, rows, step.kv_tokens, took_s)

    def add_sample(
        self, prefill_tokens: float, decode_tokens: float, kv_tokens: float, took_s: float
    ) -> None:
        """Add one step as numbers."""
        row: Row = (1.0, float(prefill_tokens), float(decode_tokens), float(kv_tokens))
        self._steps.append((row, took_s))
        self._sum(row, took_s, 1.0)
        if len(self._steps) > self._window:
            old, old_s = self._steps.popleft()
            self._sum(old, old_s, -1.0)
        self._added += 1
        if self._added % self._window == 0:  # removes accumulated rounding errors
            self._sum_anew()
        self._unsolved_steps += 1
        if self._unsolved_steps >= _REFRESH or len(self._steps) <= _REFRESH:
            self._known = None

    @property
    def step_time(self) -> StepTime:
        """Fitted coefficients; solved again at most every 50 steps."""
        if self._known is None:
            self._known = self._solve()
            self._unsolved_steps = 0
        return self._known

    def _sum(self, row: Row, took_s: float, sign: float) -> None:
        """Add a row to the normal equations; written out, since every step comes here twice."""
        _, prefill, rows, kv = row
        base_line, prefill_line, rows_line, kv_line = self._products
        times = self._times
        base_line[0] += sign
        times[0] += sign * took_s
        if rows:
            weight = sign * rows
            base_line[2] += weight
            rows_line[2] += weight * rows
            rows_line[3] += weight * kv
            times[2] += weight * took_s
        if kv:
            weight = sign * kv
            base_line[3] += weight
            kv_line[3] += weight * kv
            times[3] += weight * took_s
        if prefill:
            weight = sign * prefill
            base_line[1] += weight
            prefill_line[1] += weight * prefill
            prefill_line[2] += weight * rows
            prefill_line[3] += weight * kv
            times[1] += weight * took_s

    def _sum_anew(self) -> None:
        self._products = _zeros()
        self._times = [0.0] * _PARTS
        for row, took_s in self._steps:
            self._sum(row, took_s, 1.0)

    def _solve(self) -> StepTime:
        prior = self._prior
        wanted = (prior.base_s, prior.prefill_s, prior.decode_s, prior.kv_s)
        if not self._steps:
            return prior
        # Columns are scaled to one size; the prior weighs as much as a thousandth of one step.
        scale = [max(self._products[i][i], 0.0) ** 0.5 for i in range(_PARTS)]
        scale = [one if one > 0.0 else 1.0 for one in scale]
        weight = _PRIOR_WEIGHT / len(self._steps)
        matrix = [
            [self._products[min(i, j)][max(i, j)] / (scale[i] * scale[j]) for j in range(_PARTS)]
            for i in range(_PARTS)
        ]
        times = [self._times[i] / scale[i] for i in range(_PARTS)]
        for i in range(_PARTS):
            matrix[i][i] += weight
            times[i] += weight * wanted[i] * scale[i]
        found = _non_negative(matrix, times)
        return StepTime(*(one / size for one, size in zip(found, scale, strict=True)))


def _zeros() -> list[list[float]]:
    """An empty symmetric matrix, of which the part above the diagonal counts."""
    return [[0.0] * _PARTS for _ in range(_PARTS)]


def _non_negative(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Non-negative least squares: the best over all choices of non-zero coefficients."""
    best, best_loss = [0.0] * _PARTS, 0.0
    for size in range(_PARTS, 0, -1):
        for chosen in combinations(range(_PARTS), size):
            lines = [[matrix[i][j] for j in chosen] for i in chosen]
            part = _linear(lines, [right[i] for i in chosen])
            if part is None or min(part) < 0.0:
                continue
            # At a solution of the normal equations the loss is -x.b, up to a constant.
            loss = -sum(x * right[i] for x, i in zip(part, chosen, strict=True))
            if loss < best_loss:
                best_loss = loss
                best = [0.0] * _PARTS
                for x, i in zip(part, chosen, strict=True):
                    best[i] = x
        if size == _PARTS and best_loss < 0.0:
            break  # no coefficient had to be zero
    return best


def _linear(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Solve a small symmetric system; None if it is singular."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        if abs(rows[pivot][column]) < 1e-14:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column]
        for i in range(column + 1, size):
            factor = rows[i][column] / head[column]
            for j in range(column, size + 1):
                rows[i][j] -= factor * head[j]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = rows[i][size] - sum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = rest / rows[i][i]
    return found
