"""A race of configurations over the cases of a suite: what runs next, what is out, what is best.

The baseline runs all cases, as every other configuration is held against it. The others run a few
cases, are compared, and the better half runs twice as many (successive halving; K. Jamieson and
A. Talwalkar, Non-stochastic best arm identification, 2016). What is proven to break a rule is out.
What is only slower is set aside: it goes on if what was faster turns out to break a rule.

Nothing here has an effect or a memory: the standing follows from the results so far, so that a
race that was cut off goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from agentrt.base.record import record
from agentrt.lab.tuning.tuning_rules import (
    Rows,
    TuningRules,
    breach,
    clearly_higher,
    objective_of,
)

BASELINE = 0
"""Index of the configuration that others are held against."""

State = Literal["racing", "kept", "aside", "out"]


@record
class RacePlace:
    """How a configuration stands.

    Attributes:
        state: "racing": cases are due; "kept": it ran all cases and keeps the rules; "aside": it
            was slower than others; "out": it breaks a rule, or does not start.
        why: Reason in words for what is out or aside; "" otherwise.
        behind: The configuration that was ahead of one that is aside; None otherwise.
    """

    state: State
    why: str = ""
    behind: int | None = None


@record
class Standing:
    """How a race stands.

    Attributes:
        places: Place of each configuration.
        due: Configurations whose turn it is; () at the end.
        cases: Number of cases that they shall have run.
        fastest: Configuration that keeps the rules and has the lowest objective; None if none does.
        chosen: The first configuration, by index, that keeps the rules and is not clearly higher in
            the objective than the fastest one; None if none keeps them.
        spent: Whether the bound on runs ended the race.
    """

    places: tuple[RacePlace, ...]
    due: tuple[int, ...]
    cases: int
    fastest: int | None
    chosen: int | None
    spent: bool = False


def standing(
    results: Sequence[Rows],
    count: int,
    rules: TuningRules,
    refused: Mapping[int, str] | None = None,
) -> Standing:
    """How a race stands after some results.

    Args:
        results: Results of each configuration for the first cases of the suite, in its order; the
            first one is the baseline, simpler configurations come before others.
        count: Cases of the suite, at least one.
        rules: The rules.
        refused: Configurations that do not start, with the reason.

    Example:
        >>> standing([[], []], 8, TuningRules()).due
        (0,)
    """
    return _Race(results, count, rules, refused or {}).standing()


def heats(count: int, first_cases: int) -> list[int]:
    """Numbers of cases after which configurations are compared; the last one is all.

    Example:
        >>> heats(12, 4), heats(100, 4), heats(3, 4)
        ([4, 12], [4, 8, 16, 32, 64, 100], [3])
    """
    found = [min(first_cases, count)]
    while found[-1] < count:
        double = 2 * found[-1]
        # A last heat of few cases would start each engine for little.
        found.append(double if count - double > found[-1] else count)
    return found


def nearest(results: Sequence[Rows], rules: TuningRules) -> int | None:
    """The configuration with the lowest p95, of those that keep the limits if any does.

    Args:
        results: Results of each configuration; the baseline has run all cases.
        rules: The rules.

    Returns:
        Its index; None without results.
    """
    without_slo = replace(rules, slo_s=None)
    ran = [at for at, rows in enumerate(results) if rows]
    keeping = [at for at in ran if not breach(results[BASELINE], results[at], without_slo)]
    return min(
        keeping or ran, key=lambda at: objective_of(results[at], "latency_p95"), default=None
    )


class _Race:
    def __init__(
        self, results: Sequence[Rows], count: int, rules: TuningRules, refused: Mapping[int, str]
    ) -> None:
        self._results, self._count, self._rules = results, count, rules
        self._heats = heats(count, rules.first_cases)
        self._places = {at: RacePlace("out", why) for at, why in refused.items()}

    def standing(self) -> Standing:
        if len(self._results[BASELINE]) < self._count:
            return self._due([BASELINE], self._count)
        self._judge(BASELINE, self._count)
        others = [at for at in range(len(self._results)) if at not in self._places]
        running = others
        for cases in self._heats:
            missing = [at for at in running if len(self._results[at]) < cases]
            if missing:
                return self._due(missing, cases)
            running = self._after_heat(running, cases)
        for at in others:
            if self._places[at].state == "aside":
                self._judge(at, len(self._results[at]))
        again = self._challenger()
        if again is None:
            return self._told((), self._count)
        reached = len(self._results[again])
        return self._due([again], next(one for one in self._heats if one > reached))

    def _after_heat(self, entrants: Sequence[int], cases: int) -> list[int]:
        """The configurations that go on after a heat; the others get a place."""
        running = [at for at in entrants if not self._judge(at, cases)]
        if cases == self._count or not running:
            return []
        # A baseline that breaks a rule may still be the fastest; it is no measure then.
        first = [BASELINE] if self._places[BASELINE].state == "kept" else []
        ranked = sorted(running, key=lambda at: self._objective(at, cases))
        leader = min([*first, *ranked], key=lambda at: self._objective(at, cases))
        kept: list[int] = []
        for at in ranked:
            if at != leader and self._clearly_higher(leader, at, cases):
                self._places[at] = self._aside("clearly", leader, at, cases)
            elif len(kept) * 2 < len(running):
                kept.append(at)
            else:
                self._places[at] = self._aside("in the worse half", leader, at, cases)
        return sorted(kept)

    def _judge(self, at: int, cases: int) -> bool:
        """Whether a configuration is out after some cases; gives it its place if so, or if done."""
        rows = self._results[at][:cases]
        why = breach(self._results[BASELINE], rows, self._rules)
        if why:
            self._places[at] = RacePlace("out", why)
        elif cases == self._count:
            self._places[at] = RacePlace("kept")
        return bool(why)

    def _challenger(self) -> int | None:
        """The best-looking one aside that is ahead of the best known; None if none is."""
        best = self._fastest()
        measure = BASELINE if best is None else best
        found = []
        for at, place in self._places.items():
            if place.state == "aside":
                cases = len(self._results[at])
                own, known = self._objective(at, cases), self._objective(measure, cases)
                if best is None or own < known:
                    found.append((own / known if known else own, at))
        return min(found)[1] if found else None

    def _fastest(self) -> int | None:
        kept = sorted(at for at, place in self._places.items() if place.state == "kept")
        return min(kept, key=lambda at: self._objective(at, self._count)) if kept else None

    def _chosen(self, fastest: int | None) -> int | None:
        if fastest is None:
            return None
        kept = sorted(at for at, place in self._places.items() if place.state == "kept")
        return next(at for at in kept if not self._clearly_higher(fastest, at, self._count))

    def _due(self, due: Sequence[int], cases: int) -> Standing:
        """The standing with what shall run, as far as the bound on runs lets it."""
        most, plays = self._rules.most_plays, sum(map(len, self._results))
        affordable: list[int] = []
        for at in due:
            plays += cases - len(self._results[at])
            if most is not None and plays > most:
                break
            affordable.append(at)
        return self._told(affordable, cases, spent=not affordable)

    def _told(self, due: Sequence[int], cases: int, *, spent: bool = False) -> Standing:
        fastest = self._fastest()
        places = [self._places.get(at, RacePlace("racing")) for at in range(len(self._results))]
        chosen = self._chosen(fastest)
        return Standing(tuple(places), tuple(due), cases, fastest, chosen, spent)

    def _objective(self, at: int, cases: int) -> float:
        return objective_of(self._results[at][:cases], self._rules.objective)

    def _clearly_higher(self, one: int, other: int, cases: int) -> bool:
        first, second = self._results[one][:cases], self._results[other][:cases]
        return clearly_higher(first, second, self._rules.objective, self._rules.seed)

    def _aside(self, how: str, leader: int, at: int, cases: int) -> RacePlace:
        """The place of what others were ahead of."""
        best, own = self._objective(leader, cases), self._objective(at, cases)
        more = f"{own / best - 1:+.0%}" if best else f"{own:.3g} more"
        after = f"after {cases} of {self._count} cases"
        return RacePlace("aside", f"{self._rules.objective} {more} {after}, {how}", leader)
