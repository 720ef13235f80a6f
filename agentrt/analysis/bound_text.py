"""How far a run was from the fastest that was possible, in one line a bound."""

from __future__ import annotations

from agentrt.analysis.latency_bound import LatencyBound

_SHOWN = 4


def bound_line(found: LatencyBound, by: str) -> str:
    """Such as `2.3x the least by the machine (0.21 s); of the excess: queue 41 %, decode 22 %`.

    Args:
        found: Of a run that is over.
        by: What the least was worked out from.
    """
    if not found.least_s:
        return f"nothing to do {by}"
    parts = ", ".join(f"{label} {share:.0%}" for label, share in found.excess[:_SHOWN])
    line = f"{found.ratio:.1f}x the least {by} ({_told(found.least_s)})"
    return f"{line}; of the excess: {parts}" if parts else line


def _told(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{seconds * 1e3:.1f} ms"
