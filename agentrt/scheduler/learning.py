"""Learning from nodes and runs that have ended.

A generation's service is its share of the steps it took part in: their time, divided by the average
number of sequences in them. That charges a long prompt as much as a short one in the same steps,
and sums over all requests to the busy time of the engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from agentrt.protocol.events import NodeFinished, RunFinished
from agentrt.scheduler.admission.kv_need import engine_site
from agentrt.scheduler.estimates.estimates import depth_class
from agentrt.scheduler.runs.run import NodeState, RunState


def learn_node(node: NodeState, event: NodeFinished) -> None:
    """Learn how long a node took, and how long an output was."""
    site, ok = node.estimates, event.outcome == "ok"
    ledger = event.ledger
    if node.kind == "generate":
        if ledger is None or ledger.is_cached:
            return
        node.busy_s = ledger.prefill_s + ledger.decode_s + ledger.constraint_s + ledger.kv_reload_s
        if ok:
            site.observe("output_tokens", ledger.output_tokens)
            site.observe("busy_s", node.busy_s)
    elif node.kind != "program":
        if node.kind == "tool" and node.started_at_s is None:
            return  # it never had a worker
        begun_s = node.declared_at_s if node.started_at_s is None else node.started_at_s
        node.busy_s = max(0.0, event.at_s - begun_s)
        if event.outcome != "cancelled":
            site.observe("tool_s" if node.kind == "tool" else "busy_s", node.busy_s)


_Span = tuple[float, int]
"""Seconds until the end of the run on the longest path, and the nodes on it."""

_NOTHING: _Span = (0.0, 0)
_UNKNOWN: _Span = (-1.0, 0)


def _spans(run: RunState) -> tuple[dict[NodeState, _Span], dict[NodeState, _Span]]:
    """Spans that were still to come at the end of each node, and at its start.

    It walks over the nodes from the end of the run to its start.
    """
    from_end: dict[NodeState, _Span] = {}
    from_start: dict[NodeState, _Span] = {}
    # A node ends before the nodes that need it, and before the program around it.
    for node in sorted(run.nodes.values(), key=attrgetter("end_index"), reverse=True):
        tail = from_end.get(node, _NOTHING)
        parent = node.parent
        if parent is not None and from_end.get(parent, _NOTHING)[0] > tail[0]:
            tail = from_end[parent]
        from_end[node] = tail
        path = (tail[0] + node.busy_s, tail[1] + (node.kind != "program"))
        here: NodeState | None = node
        while here is not None and path[0] > from_start.get(here, _UNKNOWN)[0]:
            from_start[here] = path
            for cause in here.causes:
                if path[0] > from_end.get(cause, _NOTHING)[0]:
                    from_end[cause] = path
            here = here.parent  # a program takes at least as long as its body
    return from_end, from_start


def _next_sites(run: RunState, nodes: Iterable[NodeState]) -> dict[NodeState, dict[str, None]]:
    """Call sites that followed each of some nodes in the same body; "" for the end of the body."""
    found: dict[NodeState, dict[str, None]] = {node: {} for node in nodes}
    for node in run.nodes.values():
        parent, site, is_first = node.parent, node.estimates.site, True
        for cause in node.causes:
            if cause.parent is parent:
                is_first = False
                if cause in found:
                    found[cause][site] = None
        if is_first and parent is not None and parent in found:
            found[parent][site] = None
    return {node: sites or {"": None} for node, sites in found.items()}


def learn_run(run: RunState, event: RunFinished) -> None:
    """Learn from a run that ended well what was still to come at each of its call sites.

    A run counts once for each site and depth, by its first node there: a thousand siblings would
    outweigh all other runs.
    """
    if event.outcome != "ok":
        return
    from_end, from_start = _spans(run)
    firsts: dict[tuple[str, int], NodeState] = {}
    for node in run.nodes.values():
        firsts.setdefault((node.estimates.site, depth_class(node.depth)), node)
    estimates = run.estimates
    for node, next_sites in _next_sites(run, firsts.values()).items():
        site = estimates.site_at_depth(node.estimates, node.depth)
        path_s, levels = from_start[node]
        if node.kind == "program":
            node.estimates.observe("busy_s", max(0.0, path_s - from_end[node][0]))
        site.observe("rest_s", max(0.0, run.attained_s - node.attained_before_s))
        site.observe("path_s", path_s)
        site.observe("depth", levels)
        node.estimates.observe_next(next_sites)
    for role, footprint in run.footprints.items():
        if footprint.peak_tokens:
            site = estimates.site(run.template, engine_site(role))
            site.observe("context_tokens", footprint.peak_tokens)
            site.observe("longest_tokens", footprint.longest_tokens or footprint.peak_tokens)
