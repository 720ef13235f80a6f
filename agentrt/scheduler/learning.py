"""Learning from nodes and runs that have ended.

A generation's service is its share of the steps it took part in: their time, divided by the average
number of sequences in them. That charges a long prompt as much as a short one in the same steps,
and sums over all requests to the busy time of the engine.
"""

from __future__ import annotations

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


class _BackwardWalk:
    """Walk over a run's nodes from its end to its start: what was still to come at each."""

    def __init__(self, run: RunState) -> None:
        self.tail_s: dict[NodeState, float] = {}  # from its end on
        self.path_s: dict[NodeState, float] = {}  # from its start on
        self.levels: dict[NodeState, int] = {}
        tails: dict[NodeState, int] = {}
        # A node ends before the nodes that need it, and before the program around it.
        for node in sorted(run.nodes.values(), key=attrgetter("end_index"), reverse=True):
            tail_s, levels = self.tail_s.get(node, 0.0), tails.get(node, 0)
            parent = node.parent
            if parent is not None and self.tail_s.get(parent, 0.0) > tail_s:
                tail_s, levels = self.tail_s[parent], tails[parent]
            self.tail_s[node], tails[node] = tail_s, levels
            path_s = tail_s + node.busy_s
            levels += node.kind != "program"
            here: NodeState | None = node
            while here is not None and path_s > self.path_s.get(here, -1.0):
                self.path_s[here], self.levels[here] = path_s, levels
                for cause in here.causes:
                    if path_s > self.tail_s.get(cause, 0.0):
                        self.tail_s[cause], tails[cause] = path_s, levels
                here = here.parent  # a program takes at least as long as its body


def learn_run(run: RunState, event: RunFinished) -> None:
    """Learn from a run that ended well what was still to come at each of its call sites.

    A run counts once for each site and depth, by its first node there: a thousand siblings would
    outweigh all other runs.
    """
    if event.outcome != "ok":
        return
    walk = _BackwardWalk(run)
    nexts: dict[NodeState, dict[str, None]] = {}
    for node in run.nodes.values():
        predecessors = [cause for cause in node.causes if cause.parent is node.parent]
        if not predecessors and node.parent is not None:
            predecessors = [node.parent]  # it was the first in its body
        for cause in predecessors:
            nexts.setdefault(cause, {})[node.estimates.site] = None
    estimates = run.estimates
    learned: set[tuple[str, int]] = set()
    for node in run.nodes.values():
        key = (node.estimates.site, depth_class(node.depth))
        if key in learned:
            continue
        learned.add(key)
        site = estimates.site_at_depth(node.estimates, node.depth)
        path_s = walk.path_s[node]
        if node.kind == "program":
            node.estimates.observe("busy_s", max(0.0, path_s - walk.tail_s[node]))
        site.observe("rest_s", max(0.0, run.attained_s - node.attained_before_s))
        site.observe("path_s", path_s)
        site.observe("depth", walk.levels[node])
        node.estimates.observe_next(nexts.get(node, ("",)))
    for role, footprint in run.footprints.items():
        if footprint.peak_tokens:
            site = estimates.site(run.template, engine_site(role))
            site.observe("context_tokens", footprint.peak_tokens)
            site.observe("longest_tokens", footprint.longest_tokens or footprint.peak_tokens)
