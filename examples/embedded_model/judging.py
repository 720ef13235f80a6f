"""How a run is counted: which figures a question wants, whether a report holds them, and which numbers it says."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpus.example import compact
from corpus.finance import content, run
from corpus.finance_tables import closes
from held_out.questions import Question

MONTH = r"\d{4}-\d{2}"
NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
NEAR = 0.011  # two roundings to two digits may differ by one in the last
ALIKE = 0.005  # of the value: a solver may count a year's length in another way

Said = Mapping[str, Any]
"""A `Figure` as a mapping."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A figure that answers a question; without a period, any that has the value."""

    symbols: frozenset[str]
    value: float
    period: str = ""
    share: float = 0.0  # by which it may differ

    def is_in(self, said: Said) -> bool:
        """Whether a figure of a report is this one."""
        same_period = not self.period or said["period"] == self.period
        near = abs(abs(float(said["value"])) - abs(self.value)) < max(
            NEAR, self.share * abs(self.value)
        )
        return same_period and near and symbols(said["symbol"]) == self.symbols


def symbols(text: str) -> frozenset[str]:
    """The symbols that a figure is of: one, or a pair."""
    return frozenset(part.strip().upper() for part in re.split(r"[&,/]| and ", text))


def wanted(question: Question, table: closes.Table) -> list[Wanted]:
    """The figures that answer a question; none where it cannot be answered."""
    if question.figures is not None:
        return [Wanted(frozenset(of), value, share=ALIKE) for of, value in question.figures]
    found: list[Wanted] = []
    for call in question.calls:
        outcome = run(table, call)
        if isinstance(outcome, str):
            return []
        kept = [figure for figure in outcome if not figure.metric.endswith(" gap")]
        found += [Wanted(symbols(f.symbol), f.value, f.period) for f in kept]
    return list(dict.fromkeys(found))


def answers(report: Mapping[str, Any], every: Sequence[Wanted], about: Sequence[str] = ()) -> bool:
    """Whether a report holds each wanted figure and none of another symbol, or of another period."""
    said: Sequence[Said] = report.get("figures", ())
    named = frozenset(about).union(*(one.symbols for one in every))
    periods = {one.period for one in every}
    return (
        bool(every)
        and all(any(one.is_in(figure) for figure in said) for one in every)
        and all(symbols(figure["symbol"]) <= named for figure in said)
        and ("" in periods or all(figure["period"] in periods for figure in said))
    )


def numbers(text: str) -> set[str]:
    """The months and the numbers in a text, each in one form."""
    months = set(re.findall(MONTH, text))
    rest = re.sub(MONTH, " ", text)
    return months | {str(float(number)) for number in re.findall(NUMBER, rest)}


def grounded(report: Mapping[str, Any], results: Sequence[object]) -> bool:
    """Whether each number of the report is in a result."""
    known = " ".join(r if isinstance(r, str) else content(r) for r in results)  # type: ignore[arg-type]
    return numbers(compact(report)) <= numbers(known)
