"""Reservations of money: calls under `limits(cost=...)` are sent once their most is set aside.

A call that does not fit beside others waits until they have ended, in the order in which the calls
came. A call that would not fit even if the others cost nothing is refused. So branches cannot
exceed a limit together, and nothing waits for ever: each wait ends with a call under way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentrt.base.errors import BudgetExceeded
from agentrt.base.money import money_text
from agentrt.base.prices import Prices
from agentrt.program import Gen, Node
from agentrt.program.cost_budget import CostBudget
from agentrt.program.node import when_done
from agentrt.program.prompt_size import most_prompt_tokens, prompt_bytes
from agentrt.program.scope import sooner
from agentrt.protocol.backend import Capabilities, TokenPrompt
from agentrt.protocol.events import PromptRevised
from agentrt.runtime.in_flight.cost_reservation import CostReservation
from agentrt.runtime.requests.prompts import Prompt
from agentrt.runtime.run import Run
from agentrt.scheduler import InternalEvent

END_TOKENS = 1
"""The end token, which engines may count as output and `max_tokens` does not."""

LATE_S = 1.0
"""Time after a deadline in which an engine ends a request."""


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A call that waits for money, or is about to be sent.

    Attributes:
        run: Run of the node.
        gen: The node.
        reservation: Money that it waits for, or was given.
        is_woken: Whether its node is about to be sent again.
    """

    run: Run
    gen: Gen[Any]
    reservation: CostReservation
    is_woken: bool = False


class CostGate:
    """Sets money aside for calls.

    Args:
        post: Leaves an event for the loop.
    """

    def __init__(self, post: Callable[[InternalEvent], None]) -> None:
        self._post = post
        self._waiting: dict[Gen[Any], WaitingCall] = {}

    def reserve_call(
        self, run: Run, gen: Gen[Any], takes: Capabilities, prompt: Prompt
    ) -> CostReservation | None:
        """Set aside the most that a generation can cost; None lets it wait.

        A generation waits for money, or for the rest of its prompt, and is sent again then.

        Raises:
            LimitExceeded: The generation does not fit, whatever the others cost.
        """
        if not prompt.complete:
            run.deferred.add(gen.id)
            return None
        assert takes.prices is not None, "it was checked when the node was declared"
        return self.reserve(run, gen, most_pico(gen, prompt, takes, takes.prices, run.now_s()))

    def reserve(self, run: Run, gen: Gen[Any], cost_pico: int) -> CostReservation | None:
        """Set aside this for a call; None lets it wait, and it is sent again later.

        Raises:
            LimitExceeded: The call does not fit, whatever the others cost, or another one did not
                before. The block ends with the same error.
        """
        budgets = gen.scope.cost_budgets
        waiting = self._waiting.pop(gen, None)
        if waiting is not None and waiting.reservation.held_pico:
            if waiting.reservation.attempt_pico == cost_pico:
                return waiting.reservation
            waiting.reservation.settle(0)  # its prompt has changed meanwhile
        for budget in budgets:
            if budget.refusal is not None:  # one error for all, not one a call
                raise budget.refusal
            if not budget.may_fit(cost_pico):
                if waiting is not None:
                    self._wake()
                raise _refusal(gen, budget, cost_pico)
        call = WaitingCall(run, gen, CostReservation(budgets, cost_pico))
        blocked = {budget for one in self._waiting.values() for budget in _blocked_by(one)}
        if blocked.isdisjoint(budgets) and call.reservation.fits():
            call.reservation.reserve()
            when_done(gen, lambda _: self.settle(call.reservation, None))
            return call.reservation
        self._waiting[gen] = call
        if waiting is None:
            when_done(gen, self._forget)
        return None

    def settle(self, reservation: CostReservation | None, cost_pico: int | None) -> None:
        """Count the cost of a call that has ended, and let others go on that now fit.

        Args:
            reservation: Money that was set aside for it; None if no limit holds.
            cost_pico: The cost; None if it is unknown.
        """
        if reservation is None or not reservation.held_pico:
            return
        reservation.settle(cost_pico)
        self._wake()

    def _wake(self) -> None:
        """Give money to the calls that fit now, the first ones first."""
        blocked: set[CostBudget] = set()
        for call in self._waiting.values():
            reservation = call.reservation
            if call.is_woken:
                continue
            can_fit = all(one.may_fit(reservation.attempt_pico) for one in reservation.budgets)
            if can_fit and not (blocked.isdisjoint(reservation.budgets) and reservation.fits()):
                blocked.update(reservation.budgets)
                continue
            if can_fit:
                reservation.reserve()
            self._send_again(call)

    def _send_again(self, call: WaitingCall) -> None:
        run, gen = call.run, call.gen
        call.is_woken = True
        if call.reservation.held_pico:
            when_done(gen, lambda _: self.settle(call.reservation, None))
        self._post(PromptRevised(run.run_id, gen.id, (), run.now_s()))

    def _forget(self, gen: Node[Any]) -> None:
        """Drop a call that has ended while it waited; money that it was given costs nothing."""
        assert isinstance(gen, Gen)
        call = self._waiting.pop(gen, None)
        if call is not None:
            call.reservation.settle(0)
            self._wake()


def _blocked_by(call: WaitingCall) -> tuple[CostBudget, ...]:
    """Budgets in which later calls wait behind this one."""
    return () if call.reservation.held_pico else call.reservation.budgets


def _refusal(gen: Gen[Any], budget: CostBudget, most_pico: int) -> BudgetExceeded:
    """The error of a call that does not fit; the block ends with it."""
    error = BudgetExceeded(
        f"{gen.label} may cost {money_text(most_pico, '')}, and limits(cost=...) leaves "
        f"{money_text(max(0, budget.limit_pico - budget.spent_pico), '')} of "
        f"{money_text(budget.limit_pico, '')}",
        hint="Raise limits(cost=...), lower max_tokens or shorten the prompt",
        where=gen.site,
        holds_content=False,
    )
    budget.refuse(error)
    return error


def most_pico(
    gen: Gen[Any], prompt: Prompt, takes: Capabilities, prices: Prices, now_s: float
) -> int:
    """The most that one attempt at a generation can cost, in millionths of a millionth.

    Args:
        gen: The generation; with a price of time it has a deadline.
        prompt: The whole prompt.
        takes: Abilities of its engine.
        prices: Prices of the engine.
        now_s: The current time.
    """
    sent = prompt.sent
    if isinstance(sent, TokenPrompt):
        prompt_tokens = len(sent.token_ids)
    else:
        size = prompt_bytes(sent.segments, sent.tools, prompt.constraint)
        prompt_tokens = most_prompt_tokens(size)
        if takes.window_tokens:
            prompt_tokens = min(prompt_tokens, takes.window_tokens)
    device_s = 0.0
    if prices.device_second_pico:
        deadline_at_s = sooner(gen.work.deadline_at_s, gen.scope.deadline_at_s)
        assert deadline_at_s is not None, "it was asked for when the node was declared"
        device_s = max(0.0, deadline_at_s - now_s) + LATE_S
    return prices.most_pico(prompt_tokens, prompt.max_tokens + END_TOKENS, device_s)
