"""The figures of an evaluation as a table for terminals, as one HTML page, and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agentrt.analysis.html_page import folded, heading, page, paragraphs, table
from agentrt.analysis.plot import PlotLine, bars, cdf, lines
from agentrt.analysis.statistics import Interval
from agentrt.base.record import record
from agentrt.base.text_columns import aligned
from agentrt.lab.evaluation.case_result import CaseResult, as_data
from agentrt.lab.evaluation.config_summary import Comparison, ConfigSummary, summary_data

SCHEMA = "agentrt.evaluation/1"
_FIGURES = (
    "config",
    "accuracy (95 %)",
    "score",
    "fidelity",
    "errors",
    "p50",
    "p95",
    "cost",
    "best",
)
_MOST_ERROR = 200
"""Characters of an error below the table."""
_CHANGES = ("against the first", "accuracy", "lost", "won", "McNemar p", "p50", "p95", "cost")


@record
class EvaluationReport:
    """An evaluation that has ended.

    Attributes:
        suite: Name of the suite.
        results: Results of each configuration, cases in the order of the suite.
        summaries: Summary of each configuration.
        crossed: Limits that were crossed, as text.
        seed: Seed of sampling and of the intervals.
    """

    suite: str
    results: Sequence[Sequence[CaseResult]]
    summaries: Sequence[ConfigSummary]
    crossed: Sequence[str]
    seed: int

    def text(self) -> str:
        """Tables for a terminal, with a newline at the end."""
        told = [
            f"{self.suite}: {self.summaries[0].count} cases",
            *aligned([self._figures(), *self._rows()]),
        ]
        if len(self.summaries) > 1:
            told += ["", *aligned([_CHANGES, *self._changes()])]
        told += self._raised()
        told += [f"crossed: {one}" for one in self.crossed]
        return "\n".join(told) + "\n"

    def data(self) -> dict[str, Any]:
        """All of it as JSON-like data."""
        return {
            "schema": SCHEMA,
            "suite": self.suite,
            "seed": self.seed,
            "configs": [summary_data(one) for one in self.summaries],
            "crossed": list(self.crossed),
            "results": [as_data(row) for rows in self.results for row in rows],
        }

    def html(self) -> str:
        """One page that loads nothing."""
        names = [one.config for one in self.summaries]
        parts = [
            paragraphs(
                f"{self.summaries[0].count} cases, seed {self.seed}", *self._raised(), *self.crossed
            ),
            table(self._figures(), self._rows()),
        ]
        if len(names) > 1:
            parts += [table(_CHANGES, self._changes())]
        accuracy = {one.config: {"accuracy": one.accuracy} for one in self.summaries}
        latency = {
            name: [row.latency_s for row in rows]
            for name, rows in zip(names, self.results, strict=True)
        }
        parts += [
            bars("Accuracy with 95 % interval", accuracy, y="share of cases"),
            cdf("Compound latency", latency, x="seconds"),
            self._front(),
            heading("Cases that differ from the first configuration"),
            *(self._differences(at) for at in range(1, len(names))),
        ]
        return page(f"Evaluation of {self.suite}", parts)

    def _front(self) -> str:
        """Latency and accuracy of each configuration, and the front through them."""
        found = [(one.values["latency_p50"], one.values["accuracy"]) for one in self.summaries]
        on_front = sorted(at for at, one in zip(found, self.summaries, strict=True) if one.on_front)
        # A line of one point shows nothing; a short level one does.
        width = 0.01 * max(at[0] for at in found)
        spots = [
            PlotLine(one.config, ((at[0] - width, at[1]), (at[0] + width, at[1])))
            for at, one in zip(found, self.summaries, strict=True)
        ]
        front = PlotLine("Pareto front", tuple(on_front), dashed=True)
        return lines("Accuracy and latency", [*spots, front], x="p50 in seconds", y="accuracy")

    def _differences(self, at: int) -> str:
        told = self.summaries[at].comparison
        assert told is not None
        by_case = [{row.case: row for row in self.results[index]} for index in (0, at)]
        changed = [*told.lost, *told.won]
        rows = [[case, *(_outcome(rows[case]) for rows in by_case)] for case in changed]
        names = [self.summaries[index].config for index in (0, at)]
        return folded(f"{names[1]}: {len(changed)}", table(["case", *names], rows))

    def _raised(self) -> list[str]:
        """The first error under each configuration, and how many runs raised."""
        told: list[str] = []
        for one, rows in zip(self.summaries, self.results, strict=True):
            first = next((row for row in rows if row.error), None)
            if first is not None:
                error = first.error.splitlines()[0][:_MOST_ERROR]
                runs = f"{one.errors} of {one.count} runs raised"
                told.append(f"{one.config}: {runs}, {first.case} first: {error}")
        return told

    def _figures(self) -> list[str]:
        return [*_FIGURES, "judges' cost"] if self._has_judges() else list(_FIGURES)

    def _rows(self) -> list[list[str]]:
        if not self._has_judges():
            return [_figures_of(one) for one in self.summaries]
        return [
            [*_figures_of(one), _cost_text(one.judge_cost, one.judge_currency)]
            for one in self.summaries
        ]

    def _has_judges(self) -> bool:
        """Whether judges have cost something."""
        return any(one.judge_currency for one in self.summaries)

    def _changes(self) -> list[list[str]]:
        return [
            _changes_of(one.config, one.comparison)
            for one in self.summaries
            if one.comparison is not None
        ]


def _figures_of(one: ConfigSummary) -> list[str]:
    values = one.values
    return [
        one.config,
        f"{one.accuracy:.1%}",
        f"{values['score']:.3f}",
        f"{values['fidelity']:.1%}",
        str(one.errors),
        f"{values['latency_p50']:.3f} s",
        f"{values['latency_p95']:.3f} s",
        _cost_text(values["cost"], one.currency),
        "yes" if one.on_front else "no",
    ]


def _changes_of(config: str, told: Comparison) -> list[str]:
    changes = told.changes
    return [
        config,
        _change(changes["accuracy"]),
        str(len(told.lost)),
        str(len(told.won)),
        f"{told.p:.3g}",
        *(_change(changes[name]) for name in ("latency_p50", "latency_p95", "cost")),
    ]


def _cost_text(cost: float, currency: str) -> str:
    return f"{cost:.4g} {currency}" if currency else "-"


def _change(found: Interval) -> str:
    return "-" if math.isnan(found.value) else f"{found:+.1%}"


def _outcome(row: CaseResult) -> str:
    text = row.error or str(row.value)
    return f"{'passed' if row.passed else 'not passed'}: {text[:300]}"
