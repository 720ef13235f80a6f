"""A race of configurations over the cases of a suite: what runs next, what is out, what is best.

The baseline runs all cases, as every other configuration is held against it. The others run a few
cases, are compared, and the better half runs twice as many (successive halving; K. Jamieson and
A. Talwalkar, Non-stochastic best arm identification, 2016). What is proven to break a rule is out.
What is only slower is set aside: it goes on if what was faster turns out to break a rule. What is
compared runs in turns, the baseline once more beside the others, so that a drifting load is not
taken for a difference; a final decides among what is left.

Nothing here has an effect or a memory: the standing follows from the results so far, so that a
race that was cut off goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from agentrt.base.record import record
from agentrt.lab.tuning.final import FinalStanding, final_standing
from agentrt.lab.tuning.tuning_rules import (
    LATENCY_SHARES,
    Rows,
    TuningRules,
    breach,
    clearly_higher,
    objective_of,
)
from agentrt.lab.tuning.turns import BESIDE, FIRST, RaceTurn, Timings, mirrored

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
        due: Turns that come next, in their order; () at the end.
        fastest: Configuration that keeps the rules and has the lowest objective; None if none does.
        chosen: The first configuration, by index, that keeps the rules and is not clearly higher in
            the objective than another one; None if none keeps them.
        spent: Whether the bound on runs ended the race.
        final: How the final stands; None before, and without one.
    """

    places: tuple[RacePlace, ...]
    due: tuple[RaceTurn, ...]
    fastest: int | None
    chosen: int | None
    spent: bool = False
    final: FinalStanding | None = None


def standing(
    results: Sequence[Rows],
    count: int,
    rules: TuningRules,
    refused: Mapping[int, str] | None = None,
    timings: Timings | None = None,
) -> Standing:
    """How a race stands after some results.

    Args:
        results: Results of each configuration for the first cases of the suite, in its order; the
            first one is the baseline, simpler configurations come before others.
        count: Cases of the suite, at least one.
        rules: The rules.
        refused: Configurations that do not start, with the reason.
        timings: Results of later turns.

    Example:
        >>> [(turn.at, turn.cases) for turn in standing([[], []], 2, TuningRules()).due]
        [(0, (0, 1))]
    """
    return _Race(results, count, rules, refused or {}, timings or {}).standing()


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
        self,
        results: Sequence[Rows],
        count: int,
        rules: TuningRules,
        refused: Mapping[int, str],
        timings: Timings,
    ) -> None:
        self._timings = timings
        beside = timings.get((BASELINE, BESIDE), {})
        self._beside = [beside[case] for case in takewhile(beside.__contains__, range(count))]
        self._results, self._count, self._rules = results, count, rules
        self._heats = heats(count, rules.first_cases)
        self._places = {at: RacePlace("out", why) for at, why in refused.items()}

    def standing(self) -> Standing:
        if len(self._results[BASELINE]) < self._count:
            return self._due([self._first(BASELINE, self._count)])
        self._judge(BASELINE, self._count)
        others = [at for at in range(len(self._results)) if at not in self._places]
        running = others
        for cases in self._heats:
            due = self._heat(running, cases)
            if due:
                return self._due(due)
            running = self._after_heat(running, cases)
        for at in others:
            if self._places[at].state == "aside":
                self._judge(at, len(self._results[at]))
        again = self._challenger()
        if again is None:
            return self._final()
        reached = len(self._results[again])
        return self._due([self._first(again, next(one for one in self._heats if one > reached))])

    def _first(self, at: int, cases: int) -> RaceTurn:
        """The turn in which a configuration reaches so many cases."""
        return RaceTurn(at, tuple(range(len(self._results[at]), cases)))

    def _heat(self, running: Sequence[int], cases: int) -> list[RaceTurn]:
        """The turns of a heat, and of the baseline as a measure of the load where it counts."""
        reached = {at: len(self._results[at]) for at in running}
        numbers = dict.fromkeys(running, FIRST)
        by_time = self._rules.objective in LATENCY_SHARES
        if by_time and self._places[BASELINE].state == "kept" and running:
            reached = {BASELINE: len(self._beside), **reached}
            numbers[BASELINE] = BESIDE
        return mirrored(reached, numbers, cases)

    def _final(self) -> Standing:
        """The standing of the final, if there is something to decide by time."""
        kept = sorted(at for at, place in self._places.items() if place.state == "kept")
        rules = self._rules
        if len(kept) < 2 or not rules.most_turns or rules.objective not in LATENCY_SHARES:
            return self._told(())
        found = final_standing(kept, self._timings, self._count, rules)
        return self._due(found.due, found) if found.due else self._told((), final=found)

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

    def _due(self, due: Sequence[RaceTurn], final: FinalStanding | None = None) -> Standing:
        """The standing with what shall run, as far as the bound on runs lets it."""
        most = self._rules.most_plays
        plays = sum(map(len, (*self._results, *self._timings.values())))
        affordable: list[RaceTurn] = []
        for turn in due:
            plays += len(turn.cases)
            if most is not None and plays > most:
                break
            affordable.append(turn)
        return self._told(affordable, spent=not affordable, final=final)

    def _told(
        self, due: Sequence[RaceTurn], *, spent: bool = False, final: FinalStanding | None = None
    ) -> Standing:
        places = [self._places.get(at, RacePlace("racing")) for at in range(len(self._results))]
        fastest = self._fastest()
        chosen = self._chosen(fastest)
        if final is not None and final.chosen is not None:
            fastest, chosen = final.fastest, final.chosen
        return Standing(tuple(places), tuple(due), fastest, chosen, spent, final)

    def _rows(self, at: int, cases: int) -> Rows:
        """Results of the first cases, those of the baseline as they were beside the others."""
        beside = at == BASELINE and len(self._beside) >= cases
        return (self._beside if beside else self._results[at])[:cases]

    def _objective(self, at: int, cases: int) -> float:
        return objective_of(self._rows(at, cases), self._rules.objective)

    def _clearly_higher(self, one: int, other: int, cases: int) -> bool:
        first, second = self._rows(one, cases), self._rows(other, cases)
        return clearly_higher(first, second, self._rules.objective, self._rules.seed)

    def _aside(self, how: str, leader: int, at: int, cases: int) -> RacePlace:
        """The place of what others were ahead of."""
        best, own = self._objective(leader, cases), self._objective(at, cases)
        more = f"{own / best - 1:+.0%}" if best else f"{own:.3g} more"
        after = f"after {cases} of {self._count} cases"
        return RacePlace("aside", f"{self._rules.objective} {more} {after}, {how}", leader)
