"""The KV memory that a run is let in with: its peak, or half of what there is for a wide fork.

Branches of a fork come in waves: the engine starts those that fit and keeps the others waiting, who
hold nothing. A gate that waits until all of them fit at once drains the engine for a single run, so
half of the memory is enough for it, or its longest context where that is more. With a quarter too
many come in beside it, and lose their contexts to its branches.
"""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.scheduler.admission.kv_prior import expected_tokens
from agentrt.scheduler.estimates.estimates import Quantity
from agentrt.scheduler.estimates.histogram import Learned
from agentrt.scheduler.runs.run import RunState

WAVE_SHARE = 0.5
"""Of the memory that may be set aside."""


@record
class KvNeed:
    """What a run that waits needs of an engine.

    Attributes:
        peak_tokens: Most KV tokens that it is expected to need at once; 0.0 when unknown.
        entry_tokens: Of those, what is set aside for it when it is let in.
    """

    peak_tokens: float
    entry_tokens: float


def peak_tokens(run: RunState, role: str) -> float:
    """Most KV tokens that it is expected to need of an engine at once; 0.0 when unknown."""
    held = (node for node in run.held if node.model == role)
    elsewhere = run.estimates.place("").mean("context_tokens")
    return expected_tokens(_learned(run, role, "context_tokens"), elsewhere, held)


def need_of(run: RunState, role: str, limit_tokens: float) -> KvNeed:
    """What it needs to be let in.

    Args:
        run: That waits.
        role: Of the engine.
        limit_tokens: What may be set aside there for all runs together.
    """
    peak = peak_tokens(run, role)
    wave = WAVE_SHARE * limit_tokens
    if peak <= wave:
        return KvNeed(peak, peak)
    learned = _learned(run, role, "longest_tokens")
    if learned is None:  # of other programs it would say nothing: a chain needs all of its peak
        return KvNeed(peak, peak)
    waits = max((node.prompt_tokens for node in run.held if node.model == role), default=0)
    return KvNeed(peak, min(peak, max(wave, learned.mean, waits)))


def engine_site(role: str) -> str:
    """The place where the peaks of a template's runs on one engine are learned."""
    return f"engine {role}"


def _learned(run: RunState, role: str, quantity: Quantity) -> Learned | None:
    """What past runs of its template came to on one engine, or None."""
    place = run.estimates.find(run.template, engine_site(role))
    return None if place is None else place.learned.get(quantity)
