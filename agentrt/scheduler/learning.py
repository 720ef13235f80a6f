"""What a node and a run teach when they are over.

A generation's service is its share of the steps it took part in: the time of those steps, divided
by how many sequences were in them on average. That charges a long prompt as much as a short one of
the same steps, and sums over all requests to the time that the engine was busy.
"""

from __future__ import annotations

from operator import attrgetter

from agentrt.protocol.events import NodeFinished, RunFinished
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler.admission.kv_need import engine_site
from agentrt.scheduler.estimates.estimates import depth_class
from agentrt.scheduler.runs.run import NodeState, RunState


def service_s(ledger: Ledger) -> float:
    """A generation's share of the steps that it was in.

    None where even the last token of its prompt was there: it joined a like one under way.
    """
    if 0 < ledger.prompt_tokens <= ledger.cached_tokens:
        return 0.0
    steps_s = ledger.prefill_s + ledger.decode_s
    return steps_s * ledger.steps / ledger.batch_size_sum if ledger.batch_size_sum else steps_s


def node_ended(node: NodeState, event: NodeFinished) -> None:
    """Learn what a node took: time, and the length of an output."""
    place, ok = node.place, event.outcome == "ok"
    ledger = event.ledger
    if node.kind == "generate":
        if ledger is None:
            return
        node.busy_s = ledger.prefill_s + ledger.decode_s + ledger.constraint_s + ledger.kv_reload_s
        if ok:
            place.observe("output_tokens", ledger.output_tokens)
            place.observe("busy_s", node.busy_s)
    elif node.kind != "program":
        if node.kind == "tool" and node.started_at_s is None:
            return  # it never had a worker
        begun_s = node.declared_at_s if node.started_at_s is None else node.started_at_s
        node.busy_s = max(0.0, event.at_s - begun_s)
        if event.outcome != "cancelled":
            place.observe("tool_s" if node.kind == "tool" else "busy_s", node.busy_s)


class _BackwardWalk:
    """The nodes of a run from its end to its beginning: what was still to come at each."""

    def __init__(self, run: RunState) -> None:
        self.tail_s: dict[NodeState, float] = {}  # from its end on
        self.path_s: dict[NodeState, float] = {}  # from its start on
        self.levels: dict[NodeState, int] = {}
        tails: dict[NodeState, int] = {}
        # Whatever needed a node ended after it, and a program after all that is in its body.
        for node in sorted(run.nodes.values(), key=attrgetter("ended"), reverse=True):
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
                here = here.parent  # a program takes at least as long as what is in its body


def run_ended(run: RunState, event: RunFinished) -> None:
    """Learn from a run that ended well what its call sites still had before them.

    A run speaks once for each place and depth, by the first node there: a thousand siblings would
    drown all other runs.
    """
    if event.outcome != "ok":
        return
    walk = _BackwardWalk(run)
    nexts: dict[NodeState, dict[str, None]] = {}
    for node in run.nodes.values():
        followed = [cause for cause in node.causes if cause.parent is node.parent]
        if not followed and node.parent is not None:
            followed = [node.parent]  # it was the first in its body
        for cause in followed:
            nexts.setdefault(cause, {})[node.place.site] = None
    estimates = run.estimates
    spoken: set[tuple[str, int]] = set()
    for node in run.nodes.values():
        speaker = (node.place.site, depth_class(node.depth))
        if speaker in spoken:
            continue
        spoken.add(speaker)
        place = estimates.at(node.place, node.depth)
        path_s = walk.path_s[node]
        if node.kind == "program":
            node.place.observe("busy_s", max(0.0, path_s - walk.tail_s[node]))
        place.observe("rest_s", max(0.0, run.attained_s - node.attained_before_s))
        place.observe("path_s", path_s)
        place.observe("depth", walk.levels[node])
        node.place.follow(nexts.get(node, ("",)))
    for role, footprint in run.footprints.items():
        if footprint.peak_tokens:
            place = estimates.place(run.template, engine_site(role))
            place.observe("context_tokens", footprint.peak_tokens)
            place.observe("longest_tokens", footprint.longest_tokens or footprint.peak_tokens)
