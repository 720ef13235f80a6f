"""The runs of one `agentrt tune`: the race decides which, and the evaluation does them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from agentrt.base.errors import BackendError, UsageError
from agentrt.base.exception_groups import root_of

if TYPE_CHECKING:
    from agentrt.cli.evaluation import Evaluation
    from agentrt.lab.evaluation.case_result import CaseResult
    from agentrt.lab.tuning.candidates import TuningCandidate
    from agentrt.lab.tuning.race import RacePlace, Standing
    from agentrt.lab.tuning.tuning_rules import TuningRules
    from agentrt.lab.tuning.turns import RaceTurn


class Tuning:
    """The runs of one command.

    Args:
        evaluation: Runs cases, and keeps their results.
        candidates: The configurations, the baseline first.
        count: Cases of the suite.
        rules: Rules of the search.
        tell: Is told what happens, a line each.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        candidates: Sequence[TuningCandidate],
        count: int,
        rules: TuningRules,
        tell: Callable[[str], None],
    ) -> None:
        self._evaluation, self._candidates, self._count = evaluation, candidates, count
        self._rules, self._tell = rules, tell
        self._refused: dict[int, str] = {}
        self._told: dict[int, RacePlace] = {}

    async def perform(self, budget_s: float | None) -> bool:
        """Run what the race needs.

        Args:
            budget_s: Wall time in seconds after which it stops where it is; None sets none.

        Returns:
            Whether the budget ended it.

        Raises:
            BackendError: An engine has failed that had started, or the baseline's does not start.
            UsageError: A case does not fit a scorer, or no run of the baseline ends.
        """
        with anyio.move_on_after(math.inf if budget_s is None else budget_s) as scope:
            while True:
                found = self.standing()
                self._tell_places(found)
                if not found.due:
                    break
                for turn in found.due:
                    if turn.at not in self._refused:
                        await self._run(turn)
        return scope.cancelled_caught

    def standing(self) -> Standing:
        """How the race stands."""
        from agentrt.lab.tuning.race import standing

        return standing(self.results(), self._count, self._rules, self._refused, self.timings())

    def timings(self) -> dict[tuple[int, int], dict[int, CaseResult]]:
        """Results of later turns, as the race takes them."""
        return {
            (at, number): rows
            for at, one in enumerate(self._candidates)
            for number, rows in self._evaluation.timings(one.config).items()
        }

    def results(self) -> list[list[CaseResult]]:
        """Scored results of each configuration for the first cases."""
        return [self._evaluation.first_results(one.config) for one in self._candidates]

    async def _run(self, turn: RaceTurn) -> None:
        """Run a turn; a configuration that does not start is refused."""
        from agentrt.lab.tuning.turns import BESIDE, FIRST

        at, config = turn.at, self._candidates[turn.at].config
        if turn.number > BESIDE:
            self._tell(f"{config.name}: turn {turn.number - BESIDE} of the final")
        elif turn.number == FIRST:
            self._tell(f"{config.name}: cases up to {turn.cases[-1] + 1} of {self._count}")
        try:
            if turn.number == FIRST:
                await self._evaluation.run(config, turn.cases[-1] + 1)
            else:
                await self._evaluation.time_again(config, turn.cases, turn.number)
        except Exception as raised:
            error = root_of(raised)
            started = bool(self._evaluation.first_results(config))
            if not at or started or not isinstance(error, (BackendError, UsageError)):
                raise
            self._refused[at] = f"does not start: {error.message}"
            return
        if turn.number == FIRST:
            await self._evaluation.judge()
            if not at:
                self._check_baseline()

    def _check_baseline(self) -> None:
        rows = self._evaluation.first_results(self._candidates[0].config)
        if rows and all(one.error for one in rows):
            raise UsageError(
                f"no run of the baseline ends: {rows[0].error}",
                hint="mend the program or the suite; agentrt eval SUITE runs it alone",
            )

    def _tell_places(self, found: Standing) -> None:
        from agentrt.lab.tuning.tuning_report import told_place

        for at, place in enumerate(found.places):
            if place.why and self._told.get(at) != place:
                self._told[at] = place
                self._tell(told_place(self._candidates, at, place))
