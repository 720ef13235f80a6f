"""Money that is set aside for one call, over all of its attempts."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.program.cost_budget import CostBudget


@dataclass(slots=True, eq=False)
class CostReservation:
    """Money that is set aside for one call.

    Attributes:
        budgets: Budgets that it is reserved in.
        attempt_pico: The most that one attempt can cost.
        held_pico: The most that all attempts so far can cost; 0 once it is settled.
    """

    budgets: tuple[CostBudget, ...]
    attempt_pico: int
    held_pico: int = 0

    def fits(self) -> bool:
        """Whether another attempt can be set aside now."""
        return all(one.fits(self.attempt_pico) for one in self.budgets)

    def reserve(self) -> None:
        """Set an attempt aside."""
        for one in self.budgets:
            one.reserve(self.attempt_pico)
        self.held_pico += self.attempt_pico

    def settle(self, cost_pico: int | None) -> None:
        """Count the cost; None, if it is unknown, counts all that was set aside."""
        held_pico, self.held_pico = self.held_pico, 0
        if not held_pico:
            return
        for one in self.budgets:
            one.settle(held_pico, held_pico if cost_pico is None else cost_pico)
