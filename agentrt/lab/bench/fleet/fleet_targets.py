"""Targets of programs over a fleet: our runtime by the strongest client, and by known lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agentrt.analysis.statistics import Interval, interval, mean
from agentrt.analysis.target import Target
from agentrt.lab.bench.fleet.fleet_play import FleetPlay

Figure = Callable[[FleetPlay], float]
FIGURES: Mapping[str, Figure] = {
    "mean latency": lambda play: play.mean_latency_tokens,
    "mean slowdown": lambda play: play.mean_slowdown,
    "p99 slowdown": lambda play: play.p99_slowdown,
    "mean latency by the wall": lambda play: play.mean_latency_s,
}
CLIENT, OURS, KNOWING = "client", "agentrt", "agentrt, lengths known"
_TARGETS: tuple[tuple[str, str, str, float], ...] = (
    ("mean latency", OURS, CLIENT, 0.75),
    ("mean slowdown", OURS, CLIENT, 0.6),
    ("p99 slowdown", OURS, CLIENT, 1.0),
    ("mean latency by the wall", OURS, CLIENT, 0.75),
    ("mean latency", OURS, KNOWING, 1.15),
    ("mean slowdown", OURS, KNOWING, 1.15),
)


def fleet_targets(plays: Sequence[FleetPlay]) -> list[Target]:
    """The targets between the arms that were played; draws are drawn again.

    Args:
        plays: Plays of all arms at one rate.
    """
    by_arm = {play.arm: [one for one in plays if one.arm == play.arm] for play in plays}
    return [
        Target(f"{what}, {one} by {other}", ratio(by_arm[one], by_arm[other], what), most)
        for what, one, other, most in _TARGETS
        if one in by_arm and other in by_arm
    ]


def ratio(ours: Sequence[FleetPlay], theirs: Sequence[FleetPlay], figure: str) -> Interval:
    """Mean of a figure over draws, divided by that of another arm; only draws that both played."""
    first, second = (_by_draw(plays, FIGURES[figure]) for plays in (ours, theirs))
    pairs = np.array([(first[draw], second[draw]) for draw in first if draw in second])
    return interval(pairs, lambda drawn: float(drawn[:, 0].mean() / drawn[:, 1].mean()))


def _by_draw(plays: Sequence[FleetPlay], figure: Figure) -> dict[int, float]:
    draws = dict.fromkeys(play.draw for play in plays)
    return {draw: mean([figure(one) for one in plays if one.draw == draw]) for draw in draws}
