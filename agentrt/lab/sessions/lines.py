"""Figures of plays in lines of text."""

from __future__ import annotations

from typing import Any

from agentrt.lab.sessions.slo import Slo, Sustained

Json = dict[str, Any]
_MOST_LINES = 8


def play_line(engine: str, rate: float, found: Json) -> str:
    """A play in a line.

    Args:
        engine: Name of the engine.
        rate: Agents a second; 0 for one at a time.
        found: Figures of the play.
    """
    load = f"{rate:.3g} agents a second" if rate else "one agent at a time"
    parts = [
        f"{found['played_turns']} of {found['turns']} turns",
        _cached(found),
        f"{found['exact_outputs']} outputs of the exact length",
    ]
    if rate:
        parts.append(f"{found['agents_at_once']:.1f} agents at once")
    parts.append(f"{found['within_slo']:.1%} within the SLO")
    return f"{engine}, {load}: {', '.join(parts)}"


def turn_lines(found: Json) -> list[str]:
    """Some turns by their number, evenly spread over the longest session."""
    turns = found["by_turn"]
    step = max(1, -(-len(turns) // _MOST_LINES))
    lines = [
        f"  turn {turn['turn']}: {_number(turn['prompt_tokens'])} prompt tokens, "
        f"{_number(turn['cached_tokens'])} cached; first token {_ms(turn['first_token_s'])}, "
        f"step {_ms(turn['step_s'])}, whole {_ms(turn['latency_s'])}"
        for turn in turns[::step]
    ]
    drift = found["step_drift"]
    if drift is not None:
        lines.append(f"  a step grows by {drift:+.1%} over the turns, beside its context")
    return lines


def sustained_line(engine: str, found: Sustained, slo: Slo) -> str:
    """Agents sustained within an SLO."""
    bound = "at least " if found.bound == "at least" else ""
    rate = f" at {found.rate:.3g} a second" if found.rate else ""
    return f"{engine} sustains {bound}{found.agents:.1f} agents{rate} ({slo.in_words()})"


def _cached(found: Json) -> str:
    cached, ideal = found["cached_tokens"], found["ideal_tokens"]
    if cached is None:
        return "cached tokens not reported"
    share = found["cached_by_ideal"]
    text = f"{cached} of {found['prompt_tokens']} prompt tokens cached"
    return text if share is None else f"{text}, {share:.3f} of the ideal {ideal}"


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


def _ms(value_s: float | None) -> str:
    return "?" if value_s is None else f"{value_s * 1e3:.1f} ms"
