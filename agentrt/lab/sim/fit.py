"""What a step takes, from steps that were measured: least squares over what they computed.

The errors that count are relative ones, and no part may be negative, since no work saves time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from agentrt.base.errors import UsageError
from agentrt.lab.sim.costs import StepWork
from agentrt.scheduler.estimates.step_model import StepTime

_QUANTILES = (0.05, 0.5, 0.95)
_PARTS = ("base_s", "prefill_s", "decode_s", "kv_s", "pair_s")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ObservedSteps:
    """Some steps that were measured together.

    Attributes:
        steps: How many.
        work: Sums of what they computed.
        took_s: All of them.
    """

    steps: int
    work: StepWork
    took_s: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was found.

    Attributes:
        step: Of a step.
        pair_s: For each pair of a prompt token and one that it attends to.
        observations: How many there were.
        residuals: Quantile -> measured by computed time.
    """

    step: StepTime
    pair_s: float
    observations: int
    residuals: dict[str, float]


def fit(observed: Sequence[ObservedSteps]) -> Fitted:
    """The costs that explain the observations best.

    Args:
        observed: At least two, not all alike.

    Raises:
        UsageError: Nothing can be said from them.
    """
    samples = [one for one in observed if one.took_s > 0 and one.steps > 0]
    if len(samples) < 2:
        raise UsageError(
            f"{len(samples)} measured steps do not tell what a step takes",
            hint="Measure several batches and prompts, such as --batch 1,4,16 --prompt 64,512",
        )
    rows = np.array([_row(one) for one in samples])  # [samples, parts]
    took_s = np.array([one.took_s for one in samples])
    parts = _non_negative(rows / took_s[:, None], np.ones(len(samples)))
    ratios = took_s / np.maximum(rows @ parts, 1e-12)
    base_s, prefill_s, decode_s, kv_s, pair_s = (float(part) for part in parts)
    found = np.quantile(ratios, _QUANTILES)
    return Fitted(
        StepTime(base_s, prefill_s, decode_s, kv_s),
        pair_s,
        len(samples),
        {f"p{round(q * 100)}": float(v) for q, v in zip(_QUANTILES, found, strict=True)},
    )


def _row(one: ObservedSteps) -> tuple[float, ...]:
    work = one.work
    return (one.steps, work.prefill_tokens, work.decode_tokens, work.kv_tokens, work.pairs)


def _non_negative(rows: Floats, wanted: Floats) -> Floats:
    """The best of all choices of columns whose solution has no negative part.

    Args:
        rows: `[samples, parts]`.
        wanted: `[samples]`.
    """
    scale = np.linalg.norm(rows, axis=0)  # [parts]
    used = [at for at in range(rows.shape[1]) if scale[at] > 0]
    scaled = rows / np.where(scale > 0, scale, 1.0)
    best: Floats = np.zeros(rows.shape[1])
    best_loss = float("inf")
    for size in range(1, len(used) + 1):
        for chosen in combinations(used, size):
            columns = scaled[:, chosen]
            found, *_ = np.linalg.lstsq(columns, wanted, rcond=1e-9)
            loss = float(np.sum((columns @ found - wanted) ** 2))
            # A part more has to tell something: what hardly helps would be noise elsewhere.
            if found.min() >= 0 and loss < best_loss * (1 - 1e-3) - 1e-15:
                best_loss = loss
                best = np.zeros(rows.shape[1])
                best[list(chosen)] = found
    return best / np.where(scale > 0, scale, 1.0)
