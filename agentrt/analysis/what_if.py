"""Estimates of a run's latency with one thing changed, by replay of its graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import PathStep, critical_path
from agentrt.analysis.replay import replay_s
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.analysis.stage import Label
from agentrt.analysis.stages import stages
from agentrt.base.record import record

MAX_SITES = 6
"""Most call sites that are tried one by one."""

Factor = Callable[[NodeRecord, Label], float]
"""Factor of the time that a node spends under a label, such as 0.5 if it takes half as long."""


@record
class WhatIf:
    """A change of one thing, and the run's latency with it.

    Attributes:
        change: Change in a few words.
        basis: Assumption of the estimate, as a clause for people.
        saved_s: Time that the run saves; never negative.
        compound_s: Compound latency that is left.
    """

    change: str
    basis: str
    saved_s: float
    compound_s: float


def what_ifs(
    record: RunRecord, path: tuple[PathStep, ...] | None = None, causes: Causes | None = None
) -> tuple[WhatIf, ...]:
    """Estimates for a finished run, the largest saving first.

    Contention is not simulated: nodes that share an engine keep their measured times. A race keeps
    its winner. Nodes that were cut off keep the time that they had, since it is not known how long
    they would have taken; a run that was cut off has no estimates for the same reason.

    Args:
        record: A finished run.
        path: Critical path of the record, if already known.
        causes: Causes of the same record, if already known.
    """
    if record.is_cut_off:
        return ()
    causes = causes or Causes(record)
    path = path if path is not None else critical_path(record, causes)
    found = [
        *(_at_site(record, site, causes) for site in _sites(record, path)),
        _without_queueing(record, causes),
        _one_engine_more(record, causes),
        _warm_prefix(record, causes),
        *_kept_prefix(record, causes),
        _faster_decoding(record, causes),
        _without_code(record, causes),
    ]
    return tuple(sorted(found, key=lambda one: -one.saved_s))


def cut_off_names(record: RunRecord) -> tuple[str, ...]:
    """Names of the generations, tools and questions that were cut off while code awaited them."""
    cut = (node for node in record.leaves() if node.is_cut_off and node.demanded_at_s is not None)
    return tuple(dict.fromkeys(node.name for node in cut))


def scaled_s(
    record: RunRecord, factor: Factor, causes: Causes | None = None, *, code: bool = True
) -> float:
    """The compound latency if the time under each label took `factor` times as long.

    Nodes that were cut off keep the time that they had.

    Example:
        `scaled_s(record, lambda node, label: 0.0 if label == "queue" else 1.0)` is the latency of
        the run if nothing had waited for an engine or a tool worker.

    Args:
        record: A finished run.
        factor: Factor of a label of a node, from 0.
        causes: Causes of the same record, if already known.
        code: Whether the program's code takes its time.
    """
    causes = causes or Causes(record)

    def length_s(node: NodeRecord, measured_s: float) -> float:
        """The time that a node takes for what took it `measured_s` from its last input on."""
        ready_at_s, saved_s = causes.ready_at_s(node), 0.0
        for stage in stages(record, node, causes):
            for label, seconds in stage.within(ready_at_s, ready_at_s + measured_s):
                saved_s += seconds * (1.0 - factor(node, label))
        return max(0.0, measured_s - saved_s)

    def end_s(node: NodeRecord, measured_s: float) -> float:
        return measured_s if node.is_cut_off else length_s(node, measured_s)

    return replay_s(record, end_s, causes, code=code, item_s=length_s)


def engine_count(record: RunRecord) -> int:
    """Number of engines that served the run, at least 1."""
    nodes = record.nodes.values()
    return max(1, len({one.worker for node in nodes for one in node.scheduled if one.worker}))


def _estimate(record: RunRecord, change: str, basis: str, compound_s: float) -> WhatIf:
    left_s = min(max(0.0, compound_s), record.compound_s)
    return WhatIf(change, basis, record.compound_s - left_s, left_s)


def _sites(record: RunRecord, path: tuple[PathStep, ...]) -> list[tuple[str, str]]:
    """Kind and name of the generations and tools that ended, with most time on the path first."""
    on_path_s: dict[tuple[str, str], float] = defaultdict(float)
    for step in path:
        node = record.nodes.get(step.node_id)
        if step.part != "work" or node is None or node.is_cut_off:
            continue
        if node.kind in ("tool", "generate"):
            on_path_s[node.kind, node.name] += step.length_s
    return sorted(on_path_s, key=lambda site: -on_path_s[site])[:MAX_SITES]


def _at_site(record: RunRecord, site: tuple[str, str], causes: Causes) -> WhatIf:
    kind, name = site
    label = "tool" if kind == "tool" else "decode"

    def factor(node: NodeRecord, of: Label) -> float:
        return 0.5 if of == label and (node.kind, node.name) == site else 1.0

    change = f"{name} twice as fast" if kind == "tool" else f"{name} writes half as many tokens"
    basis = "each call takes half its time" if kind == "tool" else "its decoding takes half as long"
    if any(one.is_cut_off for one in record.leaves() if (one.kind, one.name) == site):
        basis += ", those that were cut off aside"
    return _estimate(record, change, basis, scaled_s(record, factor, causes))


def _without_queueing(record: RunRecord, causes: Causes) -> WhatIf:
    basis = "no wait for admission, an engine or a tool worker"
    waits: tuple[Label, ...] = ("admission", "queue")
    found_s = scaled_s(record, lambda _, label: 0.0 if label in waits else 1.0, causes)
    return _estimate(record, "No queueing", basis, found_s - _held_s(record))


def _one_engine_more(record: RunRecord, causes: Causes) -> WhatIf:
    engines = engine_count(record)
    share = engines / (engines + 1)

    def factor(node: NodeRecord, label: Label) -> float:
        return share if node.kind == "generate" and label in ("admission", "queue") else 1.0

    was = "1 engine" if engines == 1 else f"{engines} engines"
    basis = f"waits for {was} shrink to {share * 100:.0f} %; a smaller batch is not counted"
    found_s = scaled_s(record, factor, causes) - (1.0 - share) * _held_s(record)
    return _estimate(record, "One engine more", basis, found_s)


def _warm_prefix(record: RunRecord, causes: Causes) -> WhatIf:
    def factor(node: NodeRecord, label: Label) -> float:
        return 1.0 / max(1, _computed_tokens(node)) if label == "prefill" else 1.0

    basis = "all prompt tokens but the last are in the prefix cache"
    return _estimate(record, "Every prefix warm", basis, scaled_s(record, factor, causes))


def _kept_prefix(record: RunRecord, causes: Causes) -> list[WhatIf]:
    """The estimate without lost prefixes, if there are any."""
    lost_tokens = {
        node.node_id: sum(lost.lost_tokens for lost in node.lost) for node in record.leaves()
    }
    if not any(lost_tokens.values()):
        return []

    def factor(node: NodeRecord, label: Label) -> float:
        computed = _computed_tokens(node)
        kept = min(lost_tokens[node.node_id], computed - 1)
        return 1.0 - kept / computed if label == "prefill" and kept > 0 else 1.0

    basis = f"the {sum(lost_tokens.values())} lost tokens are found in the cache"
    return [_estimate(record, "No prefix lost", basis, scaled_s(record, factor, causes))]


def _faster_decoding(record: RunRecord, causes: Causes) -> WhatIf:
    found_s = scaled_s(record, lambda _, label: 0.5 if label == "decode" else 1.0, causes)
    basis = "such as a faster engine, or drafts that are accepted"
    return _estimate(record, "All decoding twice as fast", basis, found_s)


def _without_code(record: RunRecord, causes: Causes) -> WhatIf:
    def factor(_: NodeRecord, label: Label) -> float:
        return 0.0 if label == "orchestration" else 1.0

    found_s = scaled_s(record, factor, causes, code=False) + _held_s(record)
    basis = "neither the code nor the runtime between its nodes takes time"
    return _estimate(record, "No time in the program's code", basis, found_s)


def _held_s(record: RunRecord) -> float:
    """Time for which admission control held the run back before its program began."""
    root = record.root
    return root.declared.at_s - record.started_at_s if root is not None else 0.0


def _computed_tokens(node: NodeRecord) -> int:
    """Prompt tokens that were not in the cache."""
    ledger = node.ledger
    return max(0, ledger.prompt_tokens - ledger.cached_tokens) if ledger is not None else 0
