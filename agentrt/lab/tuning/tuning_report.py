"""The figures of a tuning as a table for terminals, and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.analysis.statistics import Interval, mean, percentile
from agentrt.base.money import PICO
from agentrt.base.record import record
from agentrt.base.text_columns import aligned
from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.evaluation.config_summary import compare, interval_data
from agentrt.lab.tuning.candidates import TuningCandidate
from agentrt.lab.tuning.race import BASELINE, RacePlace, Standing
from agentrt.lab.tuning.tuning_rules import TuningRules

SCHEMA = "agentrt.tuning/1"
_FIGURES = ("configuration", "state", "cases", "score", "p50", "p95")
_STATES = {"kept": "keeps the rules", "aside": "set aside", "out": "out", "racing": "not finished"}


@record
class TuningReport:
    """A tuning that has ended.

    Attributes:
        suite: Name of the suite.
        count: Cases of the suite.
        rules: Rules of the search.
        candidates: The configurations, the baseline first.
        left_out: Names of combinations that cannot be loaded here, by the reason.
        results: Results of each configuration for the first cases.
        standing: How the race ended.
        ended_by: Flag that ended it early, as "--budget 10m"; "" if none did.
        nearest: Configuration that comes nearest to the rules if none keeps them; None otherwise.
        timed_again: Runs of later turns.
    """

    suite: str
    count: int
    rules: TuningRules
    candidates: Sequence[TuningCandidate]
    left_out: Mapping[str, Sequence[str]]
    results: Sequence[Sequence[CaseResult]]
    standing: Standing
    ended_by: str
    nearest: int | None
    timed_again: int = 0

    def text(self) -> str:
        """A table for a terminal, reasons, and the choice, with a newline at the end."""
        runs = sum(map(len, self.results)) + self.timed_again
        told = [
            f"{self.suite}: {self.count} cases, {len(self.candidates)} configurations, {runs} runs",
            *aligned([self._head(), *(self._row(at) for at in self._order())]),
            "",
            *self.reasons(),
            *self._left_out(),
            *self._final(),
        ]
        first = self.results[BASELINE]
        if first and not any(row.score for row in first):
            told.append("the baseline scores 0: limits against it hold whatever is answered")
        if self.ended_by:
            told.append(f"{self.ended_by} ended the search")
        return "\n".join([*told, self.conclusion()]) + "\n"

    def reasons(self) -> list[str]:
        """Why configurations are out or were set aside, a line each."""
        places = enumerate(self.standing.places)
        return [told_place(self.candidates, at, one) for at, one in places if one.why]

    def conclusion(self) -> str:
        """The choice, or the nearest, in words."""
        at = self.standing.chosen
        if at is not None:
            told = f"chosen: {self._name(at)}, {self._figures_in_words(at)}"
            if at == BASELINE:
                better = "nothing that keeps the rules is clearly better"
                return f"{told}; {'as far as the search came, ' * bool(self.ended_by)}{better}"
            if self._changes():
                return f"{told}; the final decided"
            change = self._change(at)
            return f"{told}; {self.rules.objective} {change} against the baseline"
        if self.nearest is None:
            return "nothing was chosen: the baseline has not run all cases"
        near = f"nearest: {self._name(self.nearest)}, {self._figures_in_words(self.nearest)}"
        return f"nothing keeps the rules; {near}"

    def comments(self) -> list[str]:
        """Lines about the measurements, for the file that is written."""
        slo = "" if self.rules.slo_s is None else f", p95 at most {self.rules.slo_s:g} s"
        limits = "".join(f", not {one.text}" for one in self.rules.limits)
        return [
            f"{self.suite}, {self.count} cases, lowest {self.rules.objective}{slo}{limits}",
            *(
                f"{self._name(at)}: {self._figures_in_words(at)}"
                for at in dict.fromkeys((self.standing.chosen, BASELINE))
                if at is not None
            ),
        ]

    def data(self) -> dict[str, Any]:
        """All of it as JSON-like data."""
        chosen, nearest = self.standing.chosen, self.nearest
        return {
            "schema": SCHEMA,
            "suite": self.suite,
            "cases": self.count,
            "slo_s": self.rules.slo_s,
            "objective": self.rules.objective,
            "limits": [one.text for one in self.rules.limits],
            "chosen": None if chosen is None else self._name(chosen),
            "nearest": None if nearest is None else self._name(nearest),
            "ended_by": self.ended_by,
            "final": self._final_data(),
            "configs": [self._data(at) for at in range(len(self.candidates))],
            "left_out": {why: list(names) for why, names in self.left_out.items()},
        }

    def _changes(self) -> Mapping[int, Interval]:
        """Changes from the chosen one to the other finalists; {} without a final."""
        final = self.standing.final
        return {} if final is None else final.changes or {}

    def _final(self) -> list[str]:
        """The finalists that were not chosen, a line each."""
        final = self.standing.final
        pairs = 0 if final is None else final.pairs
        told = f"against the chosen one, {pairs} pairs"
        return [
            f"final: {self._name(at)}: {self.rules.objective} {change:+.1%} {told}"
            for at, change in self._changes().items()
        ]

    def _final_data(self) -> dict[str, Any] | None:
        final = self.standing.final
        if final is None:
            return None
        changes = {self._name(at): interval_data(one) for at, one in self._changes().items()}
        return {"pairs": final.pairs, "changes": changes}

    def _data(self, at: int) -> dict[str, Any]:
        candidate, rows, place = self.candidates[at], self.results[at], self.standing.places[at]
        size = candidate.memory
        first = self.results[BASELINE][: len(rows)]
        told = compare(first, rows, self.rules.seed) if rows else None
        return {
            "config": candidate.config.name,
            "choices": dict(candidate.choices),
            "engines": dict(candidate.engines),
            "state": place.state,
            "why": place.why,
            "behind": None if place.behind is None else self._name(place.behind),
            "cases": len(rows),
            "figures": _figures(rows),
            "currency": next((row.currency for row in rows if row.currency), ""),
            "weight_bytes": None if size is None else size.weight_bytes,
            "kv_token_bytes": None if size is None else size.kv_token_bytes,
            "changes": None
            if told is None
            else {name: interval_data(found) for name, found in told.changes.items()},
        }

    def _order(self) -> list[int]:
        """The chosen one first, then what keeps the rules, then by the cases that were run."""
        ranks = {"kept": 0, "racing": 1, "aside": 2, "out": 3}

        def rank(at: int) -> tuple[bool, int, int, float]:
            rows = self.results[at]
            p50 = percentile([row.latency_s for row in rows], 0.5) if rows else 0.0
            state = ranks[self.standing.places[at].state]
            return at != self.standing.chosen, state, -len(rows), p50

        return sorted(range(len(self.candidates)), key=rank)

    def _head(self) -> list[str]:
        more = [("cost a run", self._has_costs()), ("weights, KV a token", self._has_sizes())]
        return [*_FIGURES, *(name for name, shown in more if shown)]

    def _row(self, at: int) -> list[str]:
        rows = self.results[at]
        state = "chosen" if at == self.standing.chosen else _STATES[self.standing.places[at].state]
        told = [self._name(at), state, f"{len(rows)}/{self.count}"]
        found = _figures(rows)
        told += [f"{found['score']:.3f}"] if rows else ["-"]
        told += [f"{found[name]:.3f} s" if rows else "-" for name in ("latency_p50", "latency_p95")]
        if self._has_costs():
            currency = next((row.currency for row in rows if row.currency), "")
            told.append(f"{found['cost']:.4g} {currency}" if currency else "-")
        if self._has_sizes():
            size = self.candidates[at].memory
            told.append(
                "-"
                if size is None
                else f"{size.weight_bytes / 1e6:,.1f} MB, {size.kv_token_bytes:,.0f} B"
            )
        return told

    def _has_costs(self) -> bool:
        return any(row.currency for rows in self.results for row in rows)

    def _has_sizes(self) -> bool:
        return any(one.memory is not None for one in self.candidates)

    def _left_out(self) -> list[str]:
        return [
            f"left out: {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {why}"
            for why, names in self.left_out.items()
        ]

    def _figures_in_words(self, at: int) -> str:
        rows = self.results[at]
        found = _figures(rows)
        cases = "" if len(rows) == self.count else f" over {len(rows)} cases"
        latency = f"p50 {found['latency_p50']:.3f} s, p95 {found['latency_p95']:.3f} s"
        return f"score {found['score']:.3f}, {latency}{cases}"

    def _change(self, at: int) -> str:
        told = compare(self.results[BASELINE], self.results[at], self.rules.seed)
        return f"{told.changes[self.rules.objective]:+.1%}"

    def _name(self, at: int) -> str:
        return self.candidates[at].config.name


def told_place(candidates: Sequence[TuningCandidate], at: int, place: RacePlace) -> str:
    """A line about what is out or was set aside."""
    behind = "" if place.behind is None else f" behind {candidates[place.behind].config.name}"
    state = "out" if place.state == "out" else "set aside"
    return f"{state}: {candidates[at].config.name}: {place.why}{behind}"


def _figures(rows: Sequence[CaseResult]) -> dict[str, float]:
    """Score, latencies and cost a run; {} without results."""
    if not rows:
        return {}
    slow = [row.latency_s for row in rows]
    return {
        "score": mean([row.score for row in rows]),
        "accuracy": mean([float(row.passed) for row in rows]),
        "latency_p50": percentile(slow, 0.5),
        "latency_p95": percentile(slow, 0.95),
        "cost": sum(row.cost_pico for row in rows) / PICO / len(rows),
    }
