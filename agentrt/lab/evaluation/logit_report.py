"""Logit figures as tables for terminals, as one HTML page, and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentrt.analysis.html_page import page, paragraphs, table
from agentrt.analysis.plot import PlotLine, bars, lines
from agentrt.base.record import record
from agentrt.base.text_columns import aligned
from agentrt.lab.evaluation.logit_summary import LogitComparison, LogitSummary, logit_summary_data

SCHEMA = "agentrt.logits/1"
_FIGURES = ("config", "perplexity (95 %)")
_CHANGES = ("against the first", "perplexity", "KL mean", "KL p99", "KL max", "same top 1")


@record
class LogitReport:
    """Logit figures of configurations over one text.

    Attributes:
        text_name: Name of the text.
        chunk_tokens: Tokens of a chunk.
        summaries: Summary of each configuration, the reference first.
        crossed: Limits that were crossed, as text.
        seed: Seed of the intervals.
    """

    text_name: str
    chunk_tokens: int
    summaries: Sequence[LogitSummary]
    crossed: Sequence[str]
    seed: int

    def text(self) -> str:
        """Tables for a terminal, with a newline at the end."""
        told = [self._title(), *aligned([_FIGURES, *self._rows()])]
        if self._compared():
            told += ["", *aligned([_CHANGES, *self._changes()])]
        if self._layer_rows():
            told += ["", *aligned([self._layer_head(), *self._layer_rows()])]
        told += [
            f"{name}: its error rises most at {one.rise}"
            for name, one in self._compared()
            if one.rise
        ]
        told += [f"crossed: {one}" for one in self.crossed]
        return "\n".join(told) + "\n"

    def data(self) -> dict[str, Any]:
        """All of it as JSON-like data."""
        return {
            "schema": SCHEMA,
            "text": self.text_name,
            "chunk_tokens": self.chunk_tokens,
            "seed": self.seed,
            "configs": [logit_summary_data(one) for one in self.summaries],
            "crossed": list(self.crossed),
        }

    def html(self) -> str:
        """One page that loads nothing."""
        parts = [
            paragraphs(self._title(), *self.crossed),
            table(_FIGURES, self._rows()),
            bars(
                "Perplexity with 95 % interval",
                {one.config: {"perplexity": one.perplexity} for one in self.summaries},
                y="perplexity",
            ),
        ]
        if self._compared():
            parts.append(table(_CHANGES, self._changes()))
        if self._layer_rows():
            series = [_layer_line(name, one) for name, one in self._compared() if one.layers]
            parts += [
                lines("Error by layer", series, x="layer", y="relative RMS"),
                table(self._layer_head(), self._layer_rows()),
            ]
        return page(f"Logits over {self.text_name}", parts)

    def _title(self) -> str:
        first = self.summaries[0]
        return (
            f"{self.text_name}: {first.chunks} chunks of {self.chunk_tokens} tokens, "
            f"{first.tokens} tokens scored"
        )

    def _rows(self) -> list[list[str]]:
        return [[one.config, f"{one.perplexity:.4f}"] for one in self.summaries]

    def _compared(self) -> list[tuple[str, LogitComparison]]:
        return [(one.config, told) for one in self.summaries if (told := one.comparison)]

    def _changes(self) -> list[list[str]]:
        return [
            [
                name,
                f"{one.perplexity_change:+.3%}",
                f"{one.kl_mean:.3g}",
                f"{one.kl_p99:.3g}",
                f"{one.kl_max:.3g}",
                f"{one.top1:.2%}",
            ]
            for name, one in self._compared()
        ]

    def _layer_head(self) -> list[str]:
        return ["relative RMS error", *(name for name, _ in self._compared())]

    def _layer_rows(self) -> list[list[str]]:
        """A row a layer; a configuration with other layers has none."""
        names = dict.fromkeys(name for _, one in self._compared() for name in one.layers)
        return [
            [
                name,
                *(
                    f"{one.layers[name]:.3%}" if name in one.layers else "-"
                    for _, one in self._compared()
                ),
            ]
            for name in names
        ]


def _layer_line(name: str, one: LogitComparison) -> PlotLine:
    errors = list(one.layers.values())
    return PlotLine(
        name,
        tuple((float(at), error.value) for at, error in enumerate(errors)),
        band=tuple((error.low, error.high) for error in errors),
    )
