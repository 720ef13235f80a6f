"""The graph of a run's nodes, folded to a size that can be drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from agentrt.analysis.causes import Causes, Input
from agentrt.analysis.critical_path import PathStep
from agentrt.analysis.report.words import program_of
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.ids import NodeId
from agentrt.base.record import record

MAX_BOXES = 36
MAX_RANKS = 12

Edges = Mapping[tuple[str, str], bool]
"""Whether the critical path takes an edge, by its two ends."""


@record
class GraphBox:
    """One node, or several of a call site.

    Attributes:
        key: Name of the box in the graph.
        name: Name for people.
        kind: Kind of its nodes.
        rank: Distance from the start of the graph; edges lead to higher ranks.
        count: Number of nodes.
        work_s: Time from the last input to the end, all nodes together.
        on_path_s: Part of it that is on the critical path.
        failed: Number of nodes that failed.
        cancelled: Number of nodes that were cancelled.
    """

    key: str
    name: str
    kind: str
    rank: int
    count: int
    work_s: float
    on_path_s: float
    failed: int
    cancelled: int


@record
class GraphArrow:
    """A wait of one box for another.

    Attributes:
        source: Key of the box that is waited for.
        target: Key of the box that waits.
        critical: Whether the critical path takes the edge.
        is_back: Whether it leads back to the same or a lower rank: a loop of the program.
    """

    source: str
    target: str
    critical: bool
    is_back: bool


@record
class ProgramGraph:
    """Boxes in order of their first start, and edges between them."""

    boxes: tuple[GraphBox, ...]
    edges: tuple[GraphArrow, ...]


def program_graph(
    record: RunRecord, path: Sequence[PathStep], causes: Causes, most: int = MAX_BOXES
) -> ProgramGraph:
    """The graph of a finished run with at most `most` boxes, and few ranks if call sites are few.

    Args:
        record: A finished run.
        path: Critical path of the record.
        causes: Causes of the same record.
        most: Most boxes, at least 2. Nodes of a call site at one distance from the start share a
            box if there are too many; then all nodes of a call site; at last the call sites with
            least work.
    """
    leaves = {node.node_id: node for node in record.leaves()}
    edges = _node_edges(leaves.values(), path, causes)
    ranks = _ranks([node.node_id for node in leaves.values()], edges)
    keys: list[Callable[[NodeRecord], str]] = [
        lambda node: node.node_id,
        lambda node: f"{ranks[node.node_id]} {_site(node)}",
        _site,
        lambda node: node.name,
    ]
    for key in keys:
        groups = {node_id: key(node) for node_id, node in leaves.items()}
        if len(set(groups.values())) <= most and (_depth(groups, ranks) <= MAX_RANKS):
            break
    if len(set(groups.values())) > most:
        groups = _merged(leaves, groups, causes, record, most)
    return _folded(record, leaves, groups, edges, ranks, path, causes)


def _node_edges(
    leaves: Collection[NodeRecord], path: Sequence[PathStep], causes: Causes
) -> dict[tuple[str, str], bool]:
    """Edges between nodes with work of their own: values and items, else what code waited for."""
    found: dict[tuple[str, str], bool] = {}
    known = {node.node_id for node in leaves}
    for node in leaves:
        given = [one for one in causes.inputs(node) if one.how != "declared"]
        sources = {source for one in given for source in _sources(one, causes)}
        last = causes.last(node)
        if not sources or (last is not None and last.how == "declared"):
            waited = _before_code(node, causes)
            sources |= set(_sources(waited, causes)) if waited is not None else set()
        for source in sorted(sources - {node.node_id}):
            found[source, node.node_id] = False
    on_path = [step.node_id for step in path if step.node_id in known]
    for before, after in pairwise(dict.fromkeys(on_path)):
        found[before, after] = True
    return found


def _sources(given: Input, causes: Causes) -> list[NodeId]:
    """Nodes with work of their own behind an input; a program stands for its last ones."""
    seen: set[NodeId] = set()
    todo: list[Input | None] = [given]
    found: list[NodeId] = []
    while todo:
        one = todo.pop()
        if one is None or one.node.node_id in seen:
            continue
        seen.add(one.node.node_id)
        if one.node.kind != "program":
            found.append(one.node.node_id)
        else:
            todo.append(causes.before_end(one.node))
    return found


def _before_code(node: NodeRecord, causes: Causes) -> Input | None:
    """The last wait of the code before it declared a node, in its program or those around it."""
    here: NodeRecord | None = node
    while here is not None and here.parent is not None:
        waited = causes.before_declaration(here)
        if waited is not None:
            return waited
        last = causes.last(here.parent)
        if last is not None and last.how != "declared":
            return last
        here = here.parent
    return None


def _ranks(nodes: Sequence[NodeId], edges: Edges) -> dict[str, int]:
    """Longest distance of each node from a node without inputs."""
    inputs: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        inputs[target].append(source)
    try:
        order = list(TopologicalSorter(inputs).static_order())
    except CycleError:  # by a prompt that was revised to need a later node
        order = list(nodes)
    ranks: dict[str, int] = {}
    for node in order:
        ranks[node] = max((ranks[one] for one in inputs[node] if one in ranks), default=-1) + 1
    return ranks


def _depth(groups: Mapping[NodeId, str], ranks: Mapping[str, int]) -> int:
    """Number of ranks with a box, if each box stands at the lowest rank of its nodes."""
    lowest: dict[str, int] = {}
    for node_id, group in groups.items():
        lowest[group] = min(ranks[node_id], lowest.get(group, ranks[node_id]))
    return len(set(lowest.values()))


def _merged(
    leaves: Mapping[NodeId, NodeRecord],
    groups: Mapping[NodeId, str],
    causes: Causes,
    record: RunRecord,
    most: int,
) -> dict[NodeId, str]:
    """The groups, those with least work put into one."""
    work_s: dict[str, float] = defaultdict(float)
    for node_id, node in leaves.items():
        work_s[groups[node_id]] += _work_s(record, node, causes)
    kept = set(sorted(work_s, key=lambda key: -work_s[key])[: most - 1])
    rest = f"{len(work_s) - len(kept)} other call sites"
    return {node_id: key if key in kept else rest for node_id, key in groups.items()}


def _folded(
    record: RunRecord,
    leaves: Mapping[NodeId, NodeRecord],
    groups: Mapping[NodeId, str],
    edges: Edges,
    ranks: Mapping[str, int],
    path: Sequence[PathStep],
    causes: Causes,
) -> ProgramGraph:
    members: dict[str, list[NodeRecord]] = {}
    for node_id, node in leaves.items():
        members.setdefault(groups[node_id], []).append(node)
    on_path_s: dict[str, float] = defaultdict(float)
    for step in path:
        if step.node_id in groups:
            on_path_s[groups[step.node_id]] += step.length_s
    boxes = tuple(
        GraphBox(
            key,
            _box_name(key, nodes),
            nodes[0].kind,
            min(ranks[node.node_id] for node in nodes),
            len(nodes),
            sum(_work_s(record, node, causes) for node in nodes),
            on_path_s[key],
            sum(node.outcome == "failed" for node in nodes),
            sum(node.outcome == "cancelled" for node in nodes),
        )
        for key, nodes in members.items()
    )
    rank_of = {box.key: box.rank for box in boxes}
    joined: dict[tuple[str, str], bool] = {}
    for (source, target), critical in edges.items():
        ends = groups[NodeId(source)], groups[NodeId(target)]
        joined[ends] = joined.get(ends, False) or critical
    found = (
        GraphArrow(source, target, critical, rank_of[source] >= rank_of[target])
        for (source, target), critical in joined.items()
    )
    return ProgramGraph(boxes, tuple(found))


def _site(node: NodeRecord) -> str:
    """Call site of a node, with those of the programs around it."""
    return f"{program_of(node.node_id)}/{node.name}"


def _box_name(key: str, nodes: Sequence[NodeRecord]) -> str:
    if len(nodes) == 1:
        return nodes[0].node_id.removeprefix(f"{nodes[0].declared.parent}/")
    return nodes[0].name if len({node.name for node in nodes}) == 1 else key


def _work_s(record: RunRecord, node: NodeRecord, causes: Causes) -> float:
    return max(0.0, record.end_of(node) - causes.ready_at_s(node))
