"""The KV that a run will need, from its very first time on: what it declares, then what is learned.

A run that waits at the gate has declared its first generations: the length of their prompts is
known, and the most that they may put out. Past runs of the template tell how much it came to in the
end. One run proves little, so the first ones count beside what is declared, which weighs as one of
them and ever less. Where nothing is declared that could be counted, all programs together stand for
it.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.scheduler.estimates.histogram import Learned
from agentrt.scheduler.runs.run import NodeState

ENOUGH = 10
"""Past runs beside which nothing else counts; before, that counts as one of them, and ever less."""


def expected_tokens(learned: Learned | None, elsewhere: float, held: Iterable[NodeState]) -> float:
    """Most KV tokens that a run is expected to need of an engine at once; 0.0 when unknown.

    Never less than the prompts that it waits with: those are known.

    Args:
        learned: Peaks of past runs of its template, or None.
        elsewhere: Mean peak of all programs; 0.0 when unknown.
        held: Generations that it waits with to begin on this engine.
    """
    prompts, whole = declared_tokens(held)
    prior = whole or elsewhere
    if learned is None:
        return max(prompts, prior)
    if not prior:
        return max(prompts, learned.mean)
    count = learned.count
    weight = max(0.0, 1.0 - count / ENOUGH)
    return max(prompts, (count * learned.mean + weight * prior) / (count + weight))


def declared_tokens(nodes: Iterable[NodeState]) -> tuple[float, float]:
    """KV of generations that begin together: their prompts, and with all that they may put out.

    Branches of one fork share what is before it; how much is not told, so that the longest of their
    prompts counts for all: there is at least so much. Of an output what its site's past ones took
    counts, where there are any, and never more than it may take.
    """
    prompts: dict[object, float] = {}
    outputs = 0.0
    for node in nodes:
        fork = node.node_id if node.fork_of is None else node.fork_of
        prompts[fork] = max(prompts.get(fork, 0.0), float(node.prompt_tokens))
        most = float(node.max_tokens)
        past = node.place.learned.get("output_tokens")
        outputs += most if past is None else min(most, past.mean)
    known = sum(prompts.values())
    return known, known + outputs
