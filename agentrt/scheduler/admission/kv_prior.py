"""Prior of a run's KV need: first what it declares, then what is learned.

A held run has declared its first generations: the length of their prompts and their output limit
are known. Past runs of the template tell how much it came to in the end. One run proves little, so
the first ones are averaged with the declaration, which counts as one of them, and ever less. If
nothing is declared that could be counted, the mean over all programs takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.scheduler.estimates.histogram import DecayedHistogram
from agentrt.scheduler.runs.run import NodeState

MIN_RUNS = 10
"""Past runs beside which the prior no longer counts."""


def expected_tokens(
    learned: DecayedHistogram | None, overall_mean: float, held: Iterable[NodeState]
) -> float:
    """Expected peak of a run's KV on an engine; 0.0 if unknown.

    At least the prompts that the run waits with: those are known.

    Args:
        learned: Peaks of past runs of its template, or None.
        overall_mean: Mean peak over all programs; 0.0 if unknown.
        held: Held generations of the run on this engine.
    """
    prompts, declared = declared_tokens(held)
    prior = declared or overall_mean
    if learned is None:
        return max(prompts, prior)
    if not prior:
        return max(prompts, learned.mean)
    count = learned.count
    weight = max(0.0, 1.0 - count / MIN_RUNS)
    return max(prompts, (count * learned.mean + weight * prior) / (count + weight))


def declared_tokens(nodes: Iterable[NodeState]) -> tuple[float, float]:
    """KV of generations that begin together: of their prompts alone, and with their outputs.

    Branches of one fork share the context before it, by an unknown amount. So the longest of their
    prompts counts for all of them, which is a lower bound. An output counts with the mean of its
    site if known, and never with more than its limit.
    """
    prompts: dict[object, float] = {}
    outputs = 0.0
    for node in nodes:
        fork = node.node_id if node.fork_of is None else node.fork_of
        prompts[fork] = max(prompts.get(fork, 0.0), float(node.prompt_tokens))
        limit = float(node.max_tokens)
        past = node.estimates.histograms.get("output_tokens")
        outputs += limit if past is None else min(limit, past.mean)
    known = sum(prompts.values())
    return known, known + outputs
