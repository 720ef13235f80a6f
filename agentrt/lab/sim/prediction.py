"""Predictions of latencies, judged on plays that no calibration has seen.

A case is one policy at one load. It is predicted from costs calibrated on other programs, and from
the state of the machine in two numbers, which are probed between its plays and take nothing from
them. It is judged by its own plays, if the halves of these agree; else nothing is known of the
machine, and the case is played again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentrt.analysis.statistics import Floats
from agentrt.base.config import PolicyName
from agentrt.lab.sim.machine_state import StateFactors

SHARES = {"p50": 0.5, "p95": 0.95}
MOST_ERROR = {"p50": 0.15, "p95": 0.20}
LEAST_CASES = 10 / 12
MOST_APART = 0.10
"""Largest difference between the halves of the plays of a case that is judged."""


@dataclass(frozen=True, slots=True)
class PredictedCase:
    """One policy at one load.

    Attributes:
        name: Policy and load, such as `rwa@0.6`.
        policy: Policy of the engine.
        rate: Programs a second.
        state: State of the machine by that of the calibration, median of probes between the plays.
        predicted_s: `[plays, programs]` latencies, simulated in that state.
        naive_s: `[programs]` work of each program by the rate of the engine.
        attempts: `[plays, programs]` measured latencies of each attempt; the last is judged.
        in_sample_s: `[plays, programs]` latencies, simulated at the pace that the plays of the last
            attempt themselves had.
        took_s: Seconds of all of it.
    """

    name: str
    policy: PolicyName
    rate: float
    state: StateFactors
    predicted_s: Floats
    naive_s: Floats
    attempts: Sequence[Floats]
    in_sample_s: Floats
    took_s: float

    def measured(self, share: float) -> float:
        """Median over plays of a percentile over programs."""
        return middle(self.attempts[-1], share)

    def plays(self, share: float) -> tuple[float, float]:
        """The lowest and the highest play."""
        found = np.quantile(self.attempts[-1], share, axis=1)
        return float(found.min()), float(found.max())

    def predicted(self, share: float) -> float:
        """The prediction of `measured`."""
        return middle(self.predicted_s, share)

    def error(self, share: float) -> float:
        """Prediction by measurement, less 1."""
        return self.predicted(share) / self.measured(share) - 1

    def naive_error(self, share: float) -> float:
        """Work by rate, by the measurement, less 1."""
        return float(np.quantile(self.naive_s, share)) / self.measured(share) - 1

    def in_sample_error(self, share: float) -> float:
        """The error of a simulation that was given the pace of the plays themselves."""
        return middle(self.in_sample_s, share) / self.measured(share) - 1

    def apart(self, share: float) -> float:
        """The first half of the plays by the second one, or the other way round, less 1."""
        return halves_apart(self.attempts[-1], share)

    def is_judged(self, share: float) -> bool:
        """Whether the halves of the plays agree."""
        return self.apart(share) <= MOST_APART

    def is_within(self, name: str) -> bool:
        """Whether the case is judged and its error within the target."""
        share = SHARES[name]
        return self.is_judged(share) and abs(self.error(share)) <= MOST_ERROR[name]


def middle(latencies_s: Floats, share: float) -> float:
    """Median over plays of a percentile over programs.

    Args:
        latencies_s: `[plays, programs]`.
        share: Share of programs below the percentile.
    """
    return float(np.median(np.quantile(latencies_s, share, axis=1)))


def halves_apart(latencies_s: Floats, share: float) -> float:
    """Difference between the earlier and the later plays; one in the middle belongs to neither.

    Args:
        latencies_s: `[plays, programs]`, in the order of the plays.
        share: Share of programs below the percentile.

    Returns:
        The longer of the two medians by the shorter, less 1; infinity of a single play.

    Example:
        >>> halves_apart(np.array([[1.0], [1.0], [9.0], [1.2], [1.0]]), 0.5)
        0.10000000000000009
    """
    half = len(latencies_s) // 2
    if half == 0:
        return float("inf")
    pair = middle(latencies_s[:half], share), middle(latencies_s[-half:], share)
    return max(pair) / min(pair) - 1


def are_steady(latencies_s: Floats) -> bool:
    """Whether the halves of these plays agree at both percentiles."""
    return all(halves_apart(latencies_s, share) <= MOST_APART for share in SHARES.values())


def verdicts(cases: Sequence[PredictedCase]) -> list[str]:
    """The cases within the targets, out of sample and beside it, a line each."""
    lines: list[str] = []
    for name, share in SHARES.items():
        most = MOST_ERROR[name]
        judged = sum(case.is_judged(share) for case in cases)
        within = sum(case.is_within(name) for case in cases)
        enough = within >= LEAST_CASES * len(cases)
        lines.append(
            f"{name}, out of sample: {within} of {len(cases)} cases within {most:.0%} "
            f"({'reached' if enough else 'missed'}; target 10 of 12); judged {judged}"
        )
        for words, errors in (
            ("all cases, judged or not", [case.error(share) for case in cases]),
            ("in sample", [case.in_sample_error(share) for case in cases]),
            ("work by rate", [case.naive_error(share) for case in cases]),
        ):
            close = sum(abs(one) <= most for one in errors)
            worst = max(errors, key=abs)
            lines.append(f"  {words}: {close} within {most:.0%}, at worst {worst:+.0%}")
    return lines


def line_of(case: PredictedCase) -> str:
    """A case in a line of text."""
    parts = []
    for name, share in SHARES.items():
        low, high = case.plays(share)
        parts.append(
            f"{name} {case.measured(share):.3f} s ({low:.3f} to {high:.3f}), predicted "
            f"{case.predicted(share):.3f} ({case.error(share):+.1%}), in sample "
            f"{case.in_sample_error(share):+.1%}, work by rate {case.naive_error(share):+.0%}, "
            f"halves {case.apart(share):.1%} apart"
        )
    state = f"steps at {case.state.compute:.2f}, runtime at {case.state.runtime:.2f}"
    return (
        f"{case.name}, {case.rate:.3g}/s: {'; '.join(parts)}; {state}; "
        f"{len(case.attempts)} attempts, {case.took_s:.0f} s"
    )
