"""Refusal of runs that cannot meet their deadline, before they begin."""

from __future__ import annotations

from agentrt.scheduler.decisions import Refusal
from agentrt.scheduler.estimates.estimates import likely_path
from agentrt.scheduler.runs.run import NodeState

MIN_RUNS = 10
"""Past runs that must agree before one is refused."""

PROBE_EVERY = 10
"""One of this many hopeless runs is run all the same: machines and programs change."""


def hopeless_refusal(root: NodeState) -> Refusal | None:
    """Why the run of this program node is hopeless, or None.

    A run is hopeless if half of the past ones would have missed its deadline, even alone on the
    engine.
    """
    run = root.run
    if run.deadline_at_s is None:
        return None
    site = root.estimates.known_at_depth(root.depth)
    path = site.histograms.get("path_s")
    if path is None or path.count < MIN_RUNS:
        return None
    left_s = run.deadline_at_s - root.declared_at_s
    if path.p50 <= left_s:
        return None
    likely = likely_path(run.estimates, run.template, root.estimates.site)
    likely.pop(root.estimates.site, None)
    return Refusal(left_s, path.p50, path.count, tuple(likely.items()))


def note_hopeless(root: NodeState) -> int:
    """Note that a run is hopeless; returns how many of its site were, this one included."""
    site = root.estimates.known_at_depth(root.depth)
    site.observe("refused", 1.0)
    return site.histograms["refused"].count
