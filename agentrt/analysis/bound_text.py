"""The distance of a run from a latency bound, as one line of text."""

from __future__ import annotations

from agentrt.analysis.latency_bound import LatencyBound

_SHOWN = 4


def bound_line(found: LatencyBound, by: str) -> str:
    """A line such as `2.3x the least by the machine (0.21 s); of the excess: queue 41 %`.

    Args:
        found: The bound of a run that is over.
        by: The costs that the bound stands on, in words.
    """
    if not found.least_s:
        return f"nothing to do {by}"
    parts = ", ".join(f"{label} {share:.0%}" for label, share in found.excess[:_SHOWN])
    line = f"{found.ratio:.1f}x the least {by} ({_seconds(found.least_s)})"
    return f"{line}; of the excess: {parts}" if parts else line


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{seconds * 1e3:.1f} ms"
