"""KV need of a run: its expected peak, or half of the limit for a wide fork.

The engine admits the branches of a fork in waves: those that fit run, and the others wait without
pages. If a run were held back until all branches fit at once, the engine would drain for it. So
half of the limit is enough, or the run's longest context if that is more. With a quarter too many
other runs are admitted beside it, and lose their contexts to its branches.
"""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.scheduler.admission.kv_prior import expected_tokens
from agentrt.scheduler.estimates.estimates import Quantity
from agentrt.scheduler.estimates.histogram import DecayedHistogram
from agentrt.scheduler.runs.run import RunState

WAVE_SHARE = 0.5
"""Share of the limit that is enough for a fork in waves."""


@record
class KvNeed:
    """KV that a held run needs on an engine.

    Attributes:
        peak_tokens: Expected peak of its KV; 0.0 if unknown.
        entry_tokens: Tokens to commit when it is admitted.
    """

    peak_tokens: float
    entry_tokens: float


def peak_tokens(run: RunState, role: str) -> float:
    """Expected peak of a run's KV on an engine; 0.0 if unknown."""
    held = (node for node in run.held if node.model == role)
    overall_mean = run.estimates.site("").mean("context_tokens")
    return expected_tokens(_learned(run, role, "context_tokens"), overall_mean, held)


def kv_need(run: RunState, role: str, limit_tokens: float) -> KvNeed:
    """KV need of a held run.

    Args:
        run: The held run.
        role: Role of the engine.
        limit_tokens: Tokens that all runs together may commit there.
    """
    peak = peak_tokens(run, role)
    wave = WAVE_SHARE * limit_tokens
    if peak <= wave:
        return KvNeed(peak, peak)
    learned = _learned(run, role, "longest_tokens")
    if learned is None:  # other programs say nothing here: a chain needs all of its peak
        return KvNeed(peak, peak)
    prompt_tokens = max((node.prompt_tokens for node in run.held if node.model == role), default=0)
    return KvNeed(peak, min(peak, max(wave, learned.mean, prompt_tokens)))


def true_kv_need(run: RunState, role: str, limit_tokens: float) -> KvNeed:
    """KV need of a held run, known from a replay; what is learned if the replay knows none.

    Args:
        run: The held run.
        role: Role of the engine.
        limit_tokens: Tokens that all runs together may commit there.
    """
    peak = run.true_kv_tokens
    if peak is None:
        return kv_need(run, role, limit_tokens)
    longest = peak if run.true_longest_tokens is None else run.true_longest_tokens
    return KvNeed(peak, min(peak, max(WAVE_SHARE * limit_tokens, longest)))


def engine_site(role: str) -> str:
    """Site under which the peaks of a template's runs on one engine are learned."""
    return f"engine {role}"


def _learned(run: RunState, role: str, quantity: Quantity) -> DecayedHistogram | None:
    """Quantity of past runs of its template on one engine, or None."""
    site = run.estimates.find_site(run.template, engine_site(role))
    return None if site is None else site.histograms.get(quantity)
