"""Money that a `limits` block may still spend: reserved before a call is sent, settled after it."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.base.errors import BudgetExceeded, LimitExceeded
from agentrt.base.money import money_text


class CostBudget:
    """Money of one block. What is spent and what is reserved never exceed the limit together.

    The exception is an engine that bills more tokens than a call can have: then the block ends.

    Args:
        limit_pico: The limit, in millionths of a millionth of the currency unit.
        stop: Ends the block with an error.

    Attributes:
        limit_pico: The limit.
        spent_pico: Cost of calls that have ended.
        reserved_pico: The most that calls under way can cost.
        refusal: The error with which the block has ended, for all of its calls; None before.
    """

    def __init__(self, limit_pico: int, stop: Callable[[LimitExceeded], None]) -> None:
        self.limit_pico = limit_pico
        self.spent_pico = 0
        self.reserved_pico = 0
        self.refusal: LimitExceeded | None = None
        self._stop = stop

    def fits(self, most_pico: int) -> bool:
        """Whether a call that costs this at most can be sent now."""
        return self.spent_pico + self.reserved_pico + most_pico <= self.limit_pico

    def may_fit(self, most_pico: int) -> bool:
        """Whether such a call can be sent once others have ended, if these cost nothing."""
        return self.spent_pico + most_pico <= self.limit_pico

    def reserve(self, most_pico: int) -> None:
        """Hold back the most that a call can cost, which fits."""
        self.reserved_pico += most_pico

    def settle(self, most_pico: int, cost_pico: int) -> None:
        """Count the cost of a call in place of what was held back for it."""
        self.reserved_pico -= most_pico
        self.spent_pico += cost_pico
        if self.spent_pico > self.limit_pico:
            self.refuse(
                BudgetExceeded(
                    f"the block has cost {money_text(self.spent_pico, '')} of "
                    f"{money_text(self.limit_pico, '')}: an engine has billed more tokens than "
                    "its request can have",
                    hint="Raise limits(cost=...), and check the prices of the engine",
                )
            )

    def refuse(self, error: LimitExceeded) -> None:
        """End the block with an error."""
        self.refusal = self.refusal or error
        self._stop(error)
