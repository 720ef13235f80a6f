"""Figures of a play: cached tokens beside the ideal, latency by the number of the turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from agentrt.analysis.statistics import spread
from agentrt.lab.sessions.play import SessionPlay
from agentrt.lab.sessions.samples import TurnSample
from agentrt.lab.sessions.slo import Slo, SloPoint, agents_at_once, share_within

Json = dict[str, Any]
_LEAST_STEPS = 8
_MOST_EXPLAINED = 0.9  # share of the variance of prompts that the number of the turn explains
"""Turns below which no trend of their steps is fitted."""


def figures(play: SessionPlay, slo: Slo) -> Json:
    """Figures of a play."""
    turns = play.samples()
    agents = {agent.session for agent in play.agents}
    own = [turn for turn in turns if turn.session in agents]
    return {
        "turns": play.turns,
        "played_turns": len(turns),
        "errors": [agent.error for agent in play.agents if agent.error],
        "prompt_tokens": _sum([turn.prompt_tokens for turn in turns]),
        "cached_tokens": _sum([turn.cached_tokens for turn in turns]),
        "ideal_tokens": _sum([turn.ideal_tokens for turn in turns]),
        "cached_by_ideal": cached_by_ideal(turns),
        "output_tokens": sum(turn.output_tokens for turn in turns),
        "exact_outputs": sum(turn.output_tokens == turn.asked_tokens for turn in turns),
        "latency_s": spread([turn.latency_s for turn in turns]),
        "first_token_s": spread(_known([turn.first_token_s for turn in turns])),
        "step_s": spread(_known([turn.step_s for turn in turns])),
        "step_drift": step_drift(own),
        "by_turn": by_turn(own),
        "agents_at_once": agents_at_once(play.agents),
        "within_slo": share_within(play.agents, slo, play.turns),
    }


def slo_point(play: SessionPlay, slo: Slo) -> SloPoint:
    """The play as a load of an SLO; sessions that are played one by one are one agent."""
    agents = agents_at_once(play.agents) if play.rate else 1.0
    return SloPoint(play.rate, agents, share_within(play.agents, slo, play.turns))


def cached_by_ideal(turns: Sequence[TurnSample]) -> float | None:
    """Cached prompt tokens divided by those of a cache that never forgets; None if unknown."""
    cached = _sum([turn.cached_tokens for turn in turns])
    ideal = _sum([turn.ideal_tokens for turn in turns])
    return None if cached is None or not ideal else cached / ideal


def by_turn(turns: Sequence[TurnSample]) -> list[Json]:
    """Medians of the turns of each number, from the first turn of a session on.

    Args:
        turns: Turns of agents; those of subagents begin anew and would be mixed in.
    """
    numbered: dict[int, list[TurnSample]] = defaultdict(list)
    for turn in turns:
        numbered[turn.turn].append(turn)
    return [
        {
            "turn": number,
            "count": len(found),
            "prompt_tokens": _median([turn.prompt_tokens for turn in found]),
            "cached_tokens": _median([turn.cached_tokens for turn in found]),
            "ideal_tokens": _median([turn.ideal_tokens for turn in found]),
            "latency_s": _median([turn.latency_s for turn in found]),
            "first_token_s": _median([turn.first_token_s for turn in found]),
            "step_s": _median([turn.step_s for turn in found]),
        }
        for number, found in sorted(numbered.items())
    ]


def step_drift(turns: Sequence[TurnSample]) -> float | None:
    """Growth of a decode step over a session, beyond what its longer context costs.

    A step is fitted as a constant, a cost of each token of context, and a cost of each turn, by
    least squares. Recordings tell the last two apart: sessions of few turns have long prompts.

    Args:
        turns: Turns of several sessions, played one agent at a time.

    Returns:
        Cost of the turns between the first and the last one, divided by the mean step; None for too
        few turns, and if prompts grow with the number of the turn nearly alone.
    """
    known = [
        (turn.step_s, turn.prompt_tokens, turn.turn)
        for turn in turns
        if turn.step_s is not None and turn.prompt_tokens is not None
    ]
    if len(known) < _LEAST_STEPS:
        return None
    steps, contexts, numbers = (np.array(column, np.float64) for column in zip(*known, strict=True))
    if not numbers.std() or not contexts.std():
        return None
    if np.corrcoef(contexts, numbers)[0, 1] ** 2 > _MOST_EXPLAINED:
        return None
    factors = np.stack([np.ones_like(steps), contexts, numbers], axis=1)
    scale = np.abs(factors).max(axis=0)
    cost_s = np.linalg.lstsq(factors / scale, steps, rcond=None)[0] / scale
    return float(cost_s[2] * (numbers.max() - numbers.min()) / steps.mean())


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _median(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return median(known) if known else None


def _sum(values: Sequence[int | None]) -> int | None:
    """The sum; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
