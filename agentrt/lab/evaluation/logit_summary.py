"""Figures of a configuration's logits over a text, alone and against the first one.

What chance draws is the chunk: tokens of one text depend on each other, so that intervals by tokens
would be too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from agentrt.analysis.statistics import Floats, Interval, interval, mean
from agentrt.base.record import record
from agentrt.lab.evaluation.config_summary import figure_text
from agentrt.lab.evaluation.limit import Limit
from agentrt.lab.evaluation.logit_runs import TextScores


@record
class LogitComparison:
    """A configuration's logits against those of the first one, at the same tokens.

    Attributes:
        perplexity_change: Relative change of the perplexity.
        kl_mean: Mean Kullback-Leibler divergence from the first, in nats.
        kl_p99: 99th percentile of the divergence over tokens.
        kl_max: Largest divergence of a token.
        top1: Share of the tokens at which both find the same one likeliest.
        layers: Relative error of each layer's output, by the name of the layer: root mean square of
            the difference over that of the first's output. {} if the layers do not correspond.
    """

    perplexity_change: Interval
    kl_mean: Interval
    kl_p99: Interval
    kl_max: float
    top1: Interval
    layers: dict[str, Interval]

    @property
    def layer_error(self) -> Interval | None:
        """The largest error of a layer."""
        return max(self.layers.values(), key=lambda one: one.value, default=None)

    @property
    def rise(self) -> str:
        """The layer whose output's error exceeds that of the one before it the most; "" if none."""
        before, found, most = 0.0, "", 0.0
        for name, error in self.layers.items():
            if error.value - before > most:
                found, most = name, error.value - before
            before = error.value
        return found


@record
class LogitSummary:
    """Figures of one configuration.

    Attributes:
        config: Name of the configuration.
        chunks: Chunks of the text.
        tokens: Scored tokens.
        perplexity: Exponential of the mean negative log-likelihood of a token.
        comparison: Comparison against the first configuration; None for the first one.
    """

    config: str
    chunks: int
    tokens: int
    perplexity: Interval
    comparison: LogitComparison | None


def summarise_logits(scores: Sequence[TextScores], seed: int) -> list[LogitSummary]:
    """Summaries of configurations that scored the same text, the reference first.

    Args:
        scores: Scores of each configuration.
        seed: Seed of the resampling.
    """
    return [
        LogitSummary(
            one.config,
            len(one.chunks),
            sum(len(chunk.loss) for chunk in one.chunks),
            _perplexity([chunk.other_loss if at else chunk.loss for chunk in one.chunks], seed),
            _compared(one, seed) if at else None,
        )
        for at, one in enumerate(scores)
    ]


def crossed_logits(summaries: Sequence[LogitSummary], limits: Sequence[Limit]) -> list[str]:
    """The limits that configurations cross, one line each.

    As for suites, a relative limit is crossed only if the interval of the change leaves out none.
    A limit of what is compared is held against every configuration but the first.
    """
    lines: list[str] = []
    for limit in limits:
        for one in summaries:
            found = _bounded(limit, one)
            if found is None:
                continue
            certain = not limit.relative or not found.low <= 0 <= found.high
            if certain and limit.crossed_by(found.value):
                lines.append(f"{one.config}: {limit.text}, {figure_text(limit, found)}")
    return lines


def logit_summary_data(one: LogitSummary) -> dict[str, Any]:
    """A summary as JSON-like data."""
    told = one.comparison
    return {
        "config": one.config,
        "chunks": one.chunks,
        "tokens": one.tokens,
        "perplexity": _interval_data(one.perplexity),
        "against_first": None
        if told is None
        else {
            "perplexity_change": _interval_data(told.perplexity_change),
            "kl_mean": _interval_data(told.kl_mean),
            "kl_p99": _interval_data(told.kl_p99),
            "kl_max": told.kl_max,
            "top1": _interval_data(told.top1),
            "layers": {name: _interval_data(error) for name, error in told.layers.items()},
            "largest_rise": told.rise,
        },
    }


def _bounded(limit: Limit, one: LogitSummary) -> Interval | None:
    """The figure that a limit bounds; None if this configuration has none."""
    told = one.comparison
    if limit.figure == "perplexity" and not limit.relative:
        return one.perplexity
    if told is None:
        return None
    return {
        "perplexity": told.perplexity_change,
        "kl_mean": told.kl_mean,
        "kl_p99": told.kl_p99,
        "top1": told.top1,
        "layer_error": told.layer_error,
    }[limit.figure]


def _compared(one: TextScores, seed: int) -> LogitComparison:
    chunks = one.chunks
    divergences = np.stack([chunk.divergence for chunk in chunks])  # [chunks, tokens]
    rises = [mean(chunk.other_loss) - mean(chunk.loss) for chunk in chunks]
    errors = np.stack([chunk.layer_errors for chunk in chunks])  # [chunks, layers]
    squares = np.stack([chunk.layer_squares for chunk in chunks])
    layers = {
        f"model.layers.{at}": interval(np.column_stack(pair), _relative_rms, seed)
        for at, pair in enumerate(zip(errors.T, squares.T, strict=True))
    }
    return LogitComparison(
        perplexity_change=interval(rises, _change, seed),
        kl_mean=interval(divergences.mean(1), mean, seed),
        kl_p99=interval(divergences, partial(np.quantile, q=0.99), seed),
        kl_max=float(divergences.max()),
        top1=interval([mean(chunk.same_top) for chunk in chunks], mean, seed),
        layers=layers,
    )


def _perplexity(losses: Sequence[Floats], seed: int) -> Interval:
    return interval([mean(loss) for loss in losses], lambda means: math.exp(mean(means)), seed)


def _change(rises: Floats) -> float:
    return math.expm1(mean(rises))


def _relative_rms(sums: Floats) -> float:
    """Root of the ratio of two sums of squares `[chunks, 2]`, errors first."""
    error, square = sums.sum(0)
    return math.sqrt(error / square) if square else 0.0


def _interval_data(found: Interval) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}
