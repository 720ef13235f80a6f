"""One play of a load on a fleet, and its figures: by tokens served, and by the wall's clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agentrt.analysis.statistics import mean, percentile
from agentrt.base.record import record
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.fleet.token_clock import TokenClock

PlayKey: TypeAlias = tuple[str, int, int, float, int]
"""Arm, draw, play, rate and width."""


@record
class FleetPlay:
    """A play of one draw of programs by one arm.

    A program alone takes as many tokens of the clock as it has itself, so that its slowdown needs
    no play alone. The first tenth of the programs does not count: it finds the fleet empty.

    Attributes:
        arm: Name of the arm.
        draw: Number of the draw.
        play: Number of the play.
        rate: Programs that arrived for every 1,000 tokens that the fleet put out.
        names: Names of the programs that count, in the order of their arrival.
        latencies_tokens: Tokens that the fleet put out from the arrival of each to its result.
        own_tokens: Output tokens of each, those of calls that were given up not included.
        latencies_s: Latency of each by the wall's clock, in seconds.
        prompt_tokens: Prompt tokens of all calls, as the servers count.
        cached_tokens: Prompt tokens found in a prefix cache.
        served_tokens: Tokens that the fleet put out.
        took_s: Seconds of the play.
        others_cores: Cores that other processes used meanwhile; None if unknown.
        width: Programs under way at most; 0 for no limit.
    """

    arm: str
    draw: int
    play: int
    rate: float
    names: tuple[str, ...]
    latencies_tokens: tuple[float, ...]
    own_tokens: tuple[int, ...]
    latencies_s: tuple[float, ...]
    prompt_tokens: int
    cached_tokens: int
    served_tokens: float
    took_s: float
    others_cores: float | None = None
    width: int = 0

    @property
    def key(self) -> PlayKey:
        """Equal for the same play in another part of a bench."""
        return (self.arm, self.draw, self.play, self.rate, self.width)

    @property
    def slowdowns(self) -> list[float]:
        """Latency of each program by its own tokens."""
        pairs = zip(self.latencies_tokens, self.own_tokens, strict=True)
        return [latency / own for latency, own in pairs]

    @property
    def mean_slowdown(self) -> float:
        """Mean over programs."""
        return mean(self.slowdowns)

    @property
    def p99_slowdown(self) -> float:
        """99th percentile over programs."""
        return percentile(self.slowdowns, share=0.99)

    @property
    def mean_latency_tokens(self) -> float:
        """Mean latency, in tokens served meanwhile."""
        return mean(list(self.latencies_tokens))

    @property
    def mean_latency_s(self) -> float:
        """Mean latency by the wall's clock."""
        return mean(list(self.latencies_s))


def fleet_play(
    key: PlayKey,
    programs: Sequence[PlayedProgram],
    clock: TokenClock,
    *,
    took_s: float,
    others_cores: float | None,
) -> FleetPlay:
    """The figures of a play.

    Args:
        key: Arm, draw, play, rate and width.
        programs: Samples in the order of arrival.
        clock: Clock of the play.
        took_s: Seconds of the play.
        others_cores: Cores that others used meanwhile; None if unknown.
    """
    arm, draw, play, rate, width = key
    count = programs[len(programs) // 10 :]
    return FleetPlay(
        arm,
        draw,
        play,
        rate,
        names=tuple(one.name for one in count),
        latencies_tokens=tuple(clock.between(one.arrived_s, one.ended_s) for one in count),
        own_tokens=tuple(max(1, sum(one.output_tokens.values())) for one in count),
        latencies_s=tuple(one.latency_s for one in count),
        prompt_tokens=sum(one.prompt_tokens or 0 for one in programs),
        cached_tokens=sum(one.cached_tokens or 0 for one in programs),
        served_tokens=clock.read(math.inf),
        took_s=took_s,
        others_cores=others_cores,
        width=width,
    )


def play_from_json(told: Mapping[str, Any]) -> FleetPlay:
    """A play from a file; lists are what JSON has for tuples."""
    values: dict[str, Any] = {
        name: tuple(one) if isinstance(one, list) else one for name, one in told.items()
    }
    return FleetPlay(**values)
