"""The costs of a step, fitted to measured steps by least squares over their work.

Errors are relative, and no part is negative, since no work saves time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from agentrt.analysis.statistics import Floats
from agentrt.base.errors import UsageError
from agentrt.lab.sim.costs import StepWork
from agentrt.scheduler.estimates.step_model import StepTime

_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True)
class ObservedSteps:
    """Steps that were measured together.

    Attributes:
        steps: Number of steps.
        work: Sum of their work.
        took_s: Sum of their time.
    """

    steps: int
    work: StepWork
    took_s: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fitted costs of a step.

    Attributes:
        step: Linear model of the time of a step.
        pair_s: Step time for each pair of a prompt token and a token that it attends to.
        observations: Number of observations.
        residuals: Measured divided by computed time, by quantile.
    """

    step: StepTime
    pair_s: float
    observations: int
    residuals: dict[str, float]


def fit(observed: Sequence[ObservedSteps]) -> Fitted:
    """The costs that explain the observations best.

    Args:
        observed: At least two observations of different work.

    Raises:
        UsageError: There are too few observations.
    """
    samples = [one for one in observed if one.took_s > 0 and one.steps > 0]
    if len(samples) < 2:
        raise UsageError(
            f"{len(samples)} measured steps are too few for a fit",
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
            # A further part has to reduce the loss clearly, else it fits noise.
            if found.min() >= 0 and loss < best_loss * (1 - 1e-3) - 1e-15:
                best_loss = loss
                best = np.zeros(rows.shape[1])
                best[list(chosen)] = found
    return best / np.where(scale > 0, scale, 1.0)
