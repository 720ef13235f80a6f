"""Seconds of a step by what it computes: a convex function of its rows, learned from steps.

    tau = base + sum of slopes * (rows - knot)+ + kv * KV tokens + draft * draft rows

Rows are all tokens of the forward, those of prompts included. Weights are read once a step, so the
first rows are cheap; behind a knee, which a knot is near, each takes its time. A draft row is also
masked, drawn and verified, which a row of a prompt is not.

Least squares of relative errors, by normal equations in which a step counts half after 200 others.
Steps far from what was expected weigh less (Huber): an interrupted step says nothing of rows. No
coefficient is negative, so that the time neither falls with rows nor bends down.
"""

from __future__ import annotations

_KNOTS = (0.0, 4.0, 16.0, 64.0)
"""Rows from which on a further slope counts."""

_BASE, _KV, _DRAFT = 0, len(_KNOTS) + 1, len(_KNOTS) + 2
_PARTS = len(_KNOTS) + 3
_KV_TOKENS = 1000.0
"""Unit of KV tokens."""

_DECAY = 0.5 ** (1 / 200)
_LARGEST_WEIGHT = 1e9
_USUAL_ERROR = 0.2
"""Relative error from which on a step weighs less."""

_SOLVE_STEPS = 16
_SWEEPS = 12

ROW_SHARE = 0.06
CUDA_ROW_SHARE = 0.005
"""Share of a step that a row takes, while steps do not tell: a GPU has units to spare."""

_SIZES = (0.0, 4.0, 8.0, 16.0, 64.0, 4.0, 4.0)
"""Size of each part at which an error of the prior counts as one of half a step."""

_PRIOR_STEPS = 0.5


class StepTimes:
    """Learns the time of a step from steps as they come; knows nothing before the second.

    Args:
        row_share: Share of a step that a row takes, and a draft row once more, while it is unknown.
    """

    def __init__(self, row_share: float = ROW_SHARE) -> None:
        self._prior = (1.0, row_share, 0.0, 0.0, 0.0, 0.0, row_share)
        self._products = [[0.0] * _PARTS for _ in range(_PARTS)]
        self._times = [0.0] * _PARTS
        self._known = [0.0] * _PARTS
        self._weight = 1.0
        self._level_s = 0.0
        self._steps = self._solved_steps = 0

    def add(self, rows: int, kv_tokens: int, draft_rows: int, took_s: float) -> None:
        """Add a step.

        Args:
            rows: Tokens of its forward, of prompts, outputs and drafts.
            kv_tokens: Tokens of KV that its attention reads.
            draft_rows: How many of the rows are of drafts.
            took_s: Seconds that it took.
        """
        if took_s <= 0.0:
            return
        self._steps += 1
        if self._steps == 1:  # it compiles kernels, and may take a thousand times as long
            return
        parts = _parts(rows, kv_tokens, draft_rows)
        expected_s = sum(self._known[at] * size for at, size in parts)
        scale_s, trust = took_s, 1.0
        if expected_s > 0.0:
            scale_s = min(took_s, expected_s)
            error = abs(took_s - expected_s) / scale_s
            trust = _USUAL_ERROR / max(error, _USUAL_ERROR)
        self._weight /= _DECAY
        weight = self._weight * trust / (scale_s * scale_s)
        for at, size in parts:
            line, weighed = self._products[at], weight * size
            for other, other_size in parts:
                line[other] += weighed * other_size
            self._times[at] += weighed * took_s
        share = max(0.05, 1.0 / self._steps)
        level_s = self._level_s or took_s
        self._level_s = level_s * (min(took_s, 2.0 * level_s) / level_s) ** share
        if self._weight > _LARGEST_WEIGHT:
            self._shrink()

    def step_s(self, rows: int, kv_tokens: int) -> float:
        """Seconds of a step without drafts; 0 before the second one."""
        known = self._solved()
        return sum(known[at] * size for at, size in _parts(rows, kv_tokens, 0))

    def draft_row_s(self, rows: int) -> float:
        """Seconds that a draft row adds to a step of so many rows."""
        known = self._solved()
        slopes = (known[at + 1] for at, knot in enumerate(_KNOTS) if rows >= knot)
        return known[_DRAFT] + sum(slopes)

    def _solved(self) -> list[float]:
        """Coefficients; solved again every few steps, and more often while there are few."""
        if self._level_s and self._steps - self._solved_steps >= min(
            _SOLVE_STEPS, 1 + self._solved_steps // 2
        ):
            self._solve()
            self._solved_steps = self._steps
        return self._known

    def _solve(self) -> None:
        """Minimize by one coefficient after the other, from the last solution on."""
        known, level_s = self._known, self._level_s
        if not any(known):
            known[:] = [share * level_s for share in self._prior]
        prior_weight = _PRIOR_STEPS * self._weight / (level_s * level_s)
        lines = []
        for at, (line, size) in enumerate(zip(self._products, _SIZES, strict=True)):
            weight = prior_weight * size * size
            diagonal = line[at] + weight
            if diagonal > 0.0:
                right = self._times[at] + weight * self._prior[at] * level_s
                lines.append((at, line, weight, diagonal, right))
        for _ in range(_SWEEPS):
            for at, line, weight, diagonal, right in lines:
                own = known[at]
                others = sum(map(float.__mul__, line, known)) + weight * own
                known[at] = max(0.0, own + (right - others) / diagonal)

    def _shrink(self) -> None:
        """Divide all weights by that of the next step."""
        self._products = [[one / self._weight for one in line] for line in self._products]
        self._times = [one / self._weight for one in self._times]
        self._weight = 1.0


def _parts(rows: int, kv_tokens: int, draft_rows: int) -> list[tuple[int, float]]:
    """Parts of a step's time that are not 0: their index and size."""
    found = [(_BASE, 1.0)]
    for at, knot in enumerate(_KNOTS):
        if rows <= knot:
            break
        found.append((at + 1, rows - knot))
    if kv_tokens:
        found.append((_KV, kv_tokens / _KV_TOKENS))
    if draft_rows:
        found.append((_DRAFT, float(draft_rows)))
    return found
