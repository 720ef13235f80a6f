"""Targets of the default policy under load on a real engine; draws are drawn again, with all arms.

The programs of a draw share an engine, so they are no samples of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agentrt.analysis.statistics import Interval, interval, mean, percentile
from agentrt.analysis.target import Target
from agentrt.lab.bench.compound.arm_samples import PlayedRound
from agentrt.lab.bench.compound.load_figures import Alone, counted, slowdowns

Figure = Callable[[PlayedRound, Alone], float]
FIGURES: Mapping[str, Figure] = {
    "mean slowdown": lambda play, alone: mean(_slow(play, alone)),
    "mean latency": lambda play, alone: mean([one.latency_s for one in counted([play.programs])]),
    "p99 slowdown": lambda play, alone: percentile(_slow(play, alone), share=0.99),
}
_TARGETS: tuple[tuple[str, str, str, float], ...] = (
    ("mean slowdown", "rwa", "fcfs+gate", 0.6),
    ("mean latency", "rwa", "fcfs+gate", 0.8),
    ("p99 slowdown", "rwa", "fcfs+gate", 1.0),
    ("mean slowdown", "rwa", "clairvoyant", 1.15),
    ("mean latency", "rwa", "clairvoyant", 1.15),
)


def targets(plays: Mapping[str, Sequence[PlayedRound]], alone_s: Alone) -> list[Target]:
    """The targets between the arms that were played.

    Args:
        plays: By policy, the plays at one rate.
        alone_s: Latency alone, by program.
    """
    return [
        Target(f"{what}, {one} by {other}", ratio(plays[one], plays[other], what, alone_s), most)
        for what, one, other, most in _TARGETS
        if one in plays and other in plays
    ]


def ratio(
    ours: Sequence[PlayedRound], theirs: Sequence[PlayedRound], figure: str, alone_s: Alone
) -> Interval:
    """Mean of a figure over draws, divided by that of another arm; only draws that both played."""
    first, second = (_by_draw(plays, FIGURES[figure], alone_s) for plays in (ours, theirs))
    pairs = np.array([(first[draw], second[draw]) for draw in first if draw in second])
    return interval(pairs, lambda drawn: float(drawn[:, 0].mean() / drawn[:, 1].mean()))


def _by_draw(plays: Sequence[PlayedRound], figure: Figure, alone_s: Alone) -> dict[int, float]:
    """Mean over the plays of each draw."""
    draws = dict.fromkeys(play.draw for play in plays)
    return {
        draw: mean([figure(play, alone_s) for play in plays if play.draw == draw]) for draw in draws
    }


def _slow(play: PlayedRound, alone_s: Alone) -> list[float]:
    return slowdowns(counted([play.programs]), alone_s)
