"""In which order waiting work is served: the one place, for the loop and for engines."""

from __future__ import annotations

from agentrt.backend import RequestFacts

Key = tuple[bool, float, int]


def key(now_s: float, facts: RequestFacts) -> Key:
    """Sort key of a waiting request; the smallest goes first.

    Demanded before undemanded, then the run that began first, then the order of arrival.
    """
    return (not facts.demanded, facts.run_started_at_s, facts.request_id)
