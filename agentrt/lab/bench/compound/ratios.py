"""Ratios between two arms, with intervals over the draws of programs and over their plays.

A program differs from the next by its draw, a play from the next by all that happens on a machine.
Both are drawn again: programs within each shape, and for each program the plays of either arm by
themselves, since plays of two arms are no pairs. Shapes are given, not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentrt.analysis.statistics import Interval, percentile
from agentrt.base.record import record
from agentrt.lab.bench.compound.arm_samples import ArmSamples

_RESAMPLES = 2_000
_TAIL = 0.025
Floats: TypeAlias = NDArray[np.float64]


@record
class PairedProgram:
    """A program that two arms have played.

    Attributes:
        ours: Latencies of the first arm, one a play.
        theirs: Latencies of the other arm.
    """

    ours: tuple[float, ...]
    theirs: tuple[float, ...]


def paired(ours: ArmSamples, theirs: ArmSamples, label: str) -> list[PairedProgram]:
    """The programs of a label that both arms have played, each with all its plays.

    Programs of one play, as in a load, are paired by their place in the order of arrival.
    """
    mine, others = _by_program(ours, label), _by_program(theirs, label)
    return [PairedProgram(tuple(mine[key]), tuple(others[key])) for key in mine if key in others]


def ratio(programs: Sequence[PairedProgram], seed: int = 0) -> Interval:
    """The geometric mean of a shape's ratios, ours by theirs, and its 95 % interval."""
    return geometric_ratio({"": programs}, seed)


def geometric_ratio(shapes: Mapping[str, Sequence[PairedProgram]], seed: int = 0) -> Interval:
    """The geometric mean over shapes, each of the same weight, and its 95 % interval.

    Args:
        shapes: Programs of each shape, at least one.
        seed: Seed of the resampling.
    """
    found = np.mean([np.mean([_log(one) for one in all_]) for all_ in shapes.values()])
    random = np.random.default_rng(seed)
    again = np.mean([_resampled(all_, random) for all_ in shapes.values()], axis=0)
    ends = (percentile(again, share) for share in (_TAIL, 1 - _TAIL))
    return Interval(float(np.exp(found)), *(float(np.exp(end)) for end in ends))


def _log(one: PairedProgram) -> float:
    return float(np.mean(np.log(one.ours)) - np.mean(np.log(one.theirs)))


def _resampled(programs: Sequence[PairedProgram], random: np.random.Generator) -> Floats:
    """Means of the logarithms of a shape's ratios, one for each resample."""
    count = len(programs)
    plays = np.stack([_play_means(one, random) for one in programs])  # [programs, resamples]
    drawn = random.integers(count, size=(count, _RESAMPLES))
    found: Floats = np.take_along_axis(plays, drawn, axis=0).mean(axis=0)
    return found


def _play_means(one: PairedProgram, random: np.random.Generator) -> Floats:
    def means(latencies: Sequence[float]) -> Floats:
        logs = np.log(np.asarray(latencies, np.float64))
        found: Floats = logs[random.integers(len(logs), size=(_RESAMPLES, len(logs)))].mean(axis=1)
        return found

    return means(one.ours) - means(one.theirs)


def _by_program(samples: ArmSamples, label: str) -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = {}
    for play in samples.of(label):
        for at, sample in enumerate(play.programs):
            found.setdefault((play.draw, at), []).append(sample.latency_s)
    return found
