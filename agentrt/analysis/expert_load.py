"""Expert load of a run: how evenly the tokens of its generations went to a model's experts."""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.record import record
from agentrt.protocol.step_output import Ledger

Counts = tuple[tuple[int, ...], ...]
"""Tokens by layer with experts, and by expert."""


@record
class LayerLoad:
    """The load of one layer.

    Attributes:
        tokens: Tokens that experts took; one that takes two counts twice.
        busiest: Number of the expert with most of them, the first of equals.
        busiest_tokens: Tokens of that expert.
        idle: Experts without any.
        imbalance: `busiest_tokens` by what each would have if all had equally many; 0 without
            tokens.
    """

    tokens: int
    busiest: int
    busiest_tokens: int
    idle: int
    imbalance: float


def layer_load(counts: tuple[int, ...]) -> LayerLoad:
    """The load of a layer by its tokens of each expert, at least one.

    Example:
        >>> layer_load((1, 5, 0, 2)).imbalance
        2.5
    """
    tokens, most = sum(counts), max(counts)
    even = tokens / len(counts)
    imbalance = most / even if tokens else 0.0
    return LayerLoad(tokens, counts.index(most), most, counts.count(0), imbalance)


def mean_imbalance(counts: Counts) -> float:
    """Mean of the imbalances of layers; 0 without tokens."""
    found = [layer_load(layer).imbalance for layer in counts]
    return sum(found) / len(found) if found else 0.0


def busiest_experts(counts: Counts, most: int) -> tuple[tuple[int, int, int], ...]:
    """Layer, expert and tokens of the experts with most tokens, `most` of them at most."""
    every = [
        (layer, expert, tokens)
        for layer, experts in enumerate(counts)
        for expert, tokens in enumerate(experts)
        if tokens
    ]
    return tuple(sorted(every, key=lambda one: (-one[2], one[:2]))[:most])


def added(parts: Iterable[Counts]) -> Counts:
    """The sums of counts; those of another model than the first that has any are left out."""
    total: list[list[int]] = []
    for counts in parts:
        if not total:
            total = [list(layer) for layer in counts]
        elif [len(layer) for layer in counts] == [len(layer) for layer in total]:
            for own, layer in zip(total, counts, strict=True):
                own[:] = map(int.__add__, own, layer)
    return tuple(tuple(layer) for layer in total)


def loads_by_site(run: RunRecord) -> dict[tuple[str, str], Counts]:
    """Counts by model and call site, of generations whose experts were counted."""
    found: dict[tuple[str, str], list[Counts]] = {}
    for node in run.leaves():
        model = node.sent[-1].model if node.sent else ""
        for ledger in _ledgers(node):
            if ledger.expert_tokens:
                found.setdefault((model, node.name), []).append(ledger.expert_tokens)
    return {key: added(parts) for key, parts in found.items()}


def cache_uses_by_site(run: RunRecord) -> dict[tuple[str, str], tuple[int, int]]:
    """Hits and misses of the expert cache by model and call site, where memory was bounded.

    They are those of whole steps, so that a step counts for each of its requests.
    """
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for node in run.leaves():
        model = node.sent[-1].model if node.sent else ""
        for ledger in _ledgers(node):
            if ledger.expert_hits or ledger.expert_misses:
                hits, misses = found.get((model, node.name), (0, 0))
                both = (hits + ledger.expert_hits, misses + ledger.expert_misses)
                found[model, node.name] = both
    return found


def _ledgers(node: NodeRecord) -> list[Ledger]:
    """Ledgers of a node's attempts."""
    ledgers = [attempt.ledger for _, attempt in node.failed]
    return [*ledgers, node.ledger] if node.ledger is not None else ledgers
