"""Runs that cannot end in time are told so when they begin, not when their time is over."""

from __future__ import annotations

from agentrt.scheduler.decisions import Refusal
from agentrt.scheduler.estimates.estimates import chain
from agentrt.scheduler.runs.run import NodeState

ENOUGH = 10
"""Past runs that have to agree before one is refused."""

PROBE_EVERY = 10
"""Of runs that would be refused one of so many is let run: machines and programs change."""


def refusal(root: NodeState) -> Refusal | None:
    """Why the run of this program node is hopeless, or None.

    It is where half of the past ones would not have ended in the time it has, even alone on the
    engine.
    """
    run = root.run
    if run.deadline_at_s is None:
        return None
    place = root.place.known_at(root.depth)
    path = place.learned.get("path_s")
    if path is None or path.count < ENOUGH:
        return None
    left_s = run.deadline_at_s - root.declared_at_s
    if path.p50 <= left_s:
        return None
    likely = chain(run.estimates, run.template, root.place.site)
    likely.pop(root.place.site, None)
    return Refusal(left_s, path.p50, path.count, tuple(likely.items()))


def count_hopeless(root: NodeState) -> int:
    """Note that a run is hopeless; how many of its place were so, with this one."""
    place = root.place.known_at(root.depth)
    place.observe("refused", 1.0)
    return place.learned["refused"].count
