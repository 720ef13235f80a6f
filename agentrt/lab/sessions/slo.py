"""Agents sustained within an SLO: the figure by which buyers compare engines.

A turn is within the SLO if its first token comes soon enough, and its tokens fast enough. A load is
sustained if enough of all turns are. Loads are tried at rising rates of arrival. Between the last
rate that is sustained and the first that is not, rate and agents are interpolated to the share at
which the load is just sustained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.sessions.samples import AgentSample, TurnSample

_MORE = 1.05  # ratio of agents at once, below which two loads are alike
_NEAR = 1.3  # ratio of two rates between which the figure is interpolated


@record
class Slo:
    """Bounds on latency that an agent may rely on.

    Attributes:
        first_token_s: Seconds within which the first token comes.
        tokens_a_second: Least rate of the tokens after it.
        share: Share of turns that have to be within both.

    Raises:
        UsageError: A bound is out of range.
    """

    first_token_s: float
    tokens_a_second: float
    share: float = 0.95

    def __post_init__(self) -> None:
        bounds = (self.first_token_s, self.tokens_a_second, self.share)
        if not (all(bound > 0 for bound in bounds) and self.share <= 1):
            raise UsageError(
                f"the SLO {self.in_words()} is none",
                hint="Give seconds and tokens above 0, and a share of at most 1",
            )

    def holds(self, turn: TurnSample) -> bool:
        """True if a turn is within it; a single token has no rate."""
        if turn.first_token_s is None or turn.first_token_s > self.first_token_s:
            return False
        return turn.step_s is None or turn.step_s * self.tokens_a_second <= 1

    def in_words(self) -> str:
        """The SLO in a line."""
        return (
            f"first token within {self.first_token_s:g} s and then {self.tokens_a_second:g} tokens "
            f"a second, for {self.share:.0%} of turns"
        )


@record
class SloPoint:
    """One load.

    Attributes:
        rate: Agents that arrive a second; 0 for one agent at a time.
        agents: Agents at once, on average.
        share: Share of turns within the SLO; turns of an agent that failed are not.
    """

    rate: float
    agents: float
    share: float


@record
class Sustained:
    """The highest load that is sustained.

    Attributes:
        agents: Agents at once.
        rate: Agents that arrive a second.
        bound: `between` if a higher load was tried and is not sustained, `at least` if every load
            is sustained, `none` if none is.
    """

    agents: float
    rate: float
    bound: Literal["between", "at least", "none"]


def share_within(agents: Sequence[AgentSample], slo: Slo, turns: int) -> float:
    """Share of turns within an SLO.

    Args:
        agents: Agents as they were played.
        slo: The SLO.
        turns: Turns that they had to play; those that failed or never began are not within it.
    """
    held = sum(slo.holds(turn) for agent in agents for turn in agent.turns)
    return held / turns if turns else 0.0


def agents_at_once(agents: Sequence[AgentSample]) -> float:
    """Mean number of agents under way, from the first arrival to the last one.

    What follows the last arrival is left out: the load only ends there. A single agent is one.
    """
    begin, end = min(one.arrived_s for one in agents), max(one.arrived_s for one in agents)
    if end <= begin:
        return float(len(agents))
    under_way_s = sum(min(one.ended_s, end) - one.arrived_s for one in agents)
    return under_way_s / (end - begin)


def sustained(points: Sequence[SloPoint], share: float) -> Sustained:
    """The highest load that is sustained.

    Args:
        points: Loads that were tried, in any order. A load behind the first that is not sustained
            does not count, even if chance lets it pass.
        share: Share of turns that have to be within the SLO.

    Returns:
        Rate and agents, each interpolated linearly in the share.
    """
    held: SloPoint | None = None
    for point in sorted(points, key=lambda one: one.rate):
        if point.share >= share:
            held = point
            continue
        if held is None:
            return Sustained(0.0, 0.0, "none")
        part = (held.share - share) / (held.share - point.share)
        return Sustained(
            held.agents + part * (point.agents - held.agents),
            held.rate + part * (point.rate - held.rate),
            "between",
        )
    if held is None:
        return Sustained(0.0, 0.0, "none")
    return Sustained(held.agents, held.rate, "at least")


def next_rate(
    points: Sequence[SloPoint], share: float, first: float, most: int = 10
) -> float | None:
    """The rate to try next: doubled until a load is not sustained, then between the two.

    Args:
        points: Loads that were tried.
        share: Share of turns that have to be within the SLO.
        first: Rate to begin with.
        most: Most rates that are tried.

    Returns:
        None once the two are within `_NEAR` of each other, if one agent alone is not sustained, and
        if a higher rate does not bring more agents together, because all are under way at once.
    """
    tried = sorted((point for point in points if point.rate), key=lambda one: one.rate)
    alone = [point for point in points if not point.rate]
    if len(tried) >= most or any(point.share < share for point in alone):
        return None
    if not tried:
        return first
    failed = [point.rate for point in tried if point.share < share]
    if not failed:
        alike = len(tried) > 1 and tried[-1].agents <= _MORE * tried[-2].agents
        return None if alike else 2 * tried[-1].rate
    high = min(failed)
    low = max((point.rate for point in tried if point.rate < high), default=0.0)
    if not low:
        return high / 2
    return None if high <= _NEAR * low else (low * high) ** 0.5
