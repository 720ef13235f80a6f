"""A block with limits of its own: seconds, tokens, tool calls, money."""

from __future__ import annotations

from contextvars import Token
from types import TracebackType
from typing import Literal, Self

import anyio

from agentrt.base.errors import DeadlineExceeded, LimitExceeded, UsageError
from agentrt.base.money import Amount, pico_of
from agentrt.base.run_progress import RunProgress
from agentrt.program.budget import Budget
from agentrt.program.call_site import call_site
from agentrt.program.cost_budget import CostBudget
from agentrt.program.ports import OwningScope, active
from agentrt.program.scope import current_scope, sooner


class limits:
    """Limits on everything made inside the block.

    Use it to bound the time, tokens, tool calls or cost of a part of a program. `async with` is a
    scope: its end waits for the nodes made inside. A plain `with` leaves that to the scope around
    it, but the limits hold for its nodes all the same.

    Example:
        >>> from agentrt import BudgetExceeded, chat, limits, program
        >>> @program
        ... async def short(tokens: int) -> str:
        ...     try:
        ...         async with limits(seconds=2.0, tokens=tokens):
        ...             return await chat().user("Name a river.").generate()
        ...     except BudgetExceeded:
        ...         return "too long"
        >>> short.run(100), short.run(2)
        ('Nile', 'too long')

    Args:
        seconds: Seconds for the block, which then ends with `DeadlineExceeded`.
        tokens: Output tokens of all generations; more end the block with `BudgetExceeded`.
        calls: Tool calls; one more ends the block with `BudgetExceeded`.
        cost: Money for all generations, in the currency of the engines' prices. The most that a
            call can cost is set aside before it is sent. A call that does not fit beside others
            waits for them; one that does not fit at all ends the block with `BudgetExceeded`.
        on_limit: With "close", structured outputs are ended validly before a limit is reached: each
            generation gets the tokens that are left, and closes before the deadline.

    Raises:
        UsageError: A limit is not above 0, the cost is no amount, or `on_limit` is unknown.
        NoRun: No run is active when the block is entered.
        DeadlineExceeded: The seconds are over; raised at the end of the block.
        BudgetExceeded: Tokens, calls or money are used up; raised at the end of the block.
    """

    def __init__(
        self,
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        cost: Amount | None = None,
        on_limit: Literal["raise", "close"] = "raise",
    ) -> None:
        for name, value in (("seconds", seconds), ("tokens", tokens), ("calls", calls)):
            if value is not None and not value > 0:
                raise UsageError(f"{name}={value!r} is out of range", hint="Give more than 0")
        if on_limit not in ("raise", "close"):
            raise UsageError(f"on_limit={on_limit!r} is unknown", hint="Give 'raise' or 'close'")
        self._seconds = seconds
        self._budget = Budget(tokens, calls, on_limit == "close", self._stop)
        self._cost_pico = None if cost is None else pico_of(cost, "cost")
        if self._cost_pico == 0:
            raise UsageError(f"cost={cost!r} is out of range", hint="Give more than 0")
        self._close = on_limit == "close"
        self._site = call_site()
        self._reached: LimitExceeded | None = None
        self._progress = RunProgress()
        self._token: Token[OwningScope | None] | None = None

    def __enter__(self) -> Self:
        self._outer = current_scope("limits")
        run = self._outer.run
        self._scope = scope = self._outer.block("limits")
        scope.close = scope.close or self._close
        scope.budgets = (self._budget, *scope.budgets)
        if self._cost_pico is not None:
            cost_budget = CostBudget(self._cost_pico, self._stop)
            scope.cost_budgets = (cost_budget, *scope.cost_budgets)
        self._cancel = anyio.CancelScope()
        if self._seconds is not None:
            at_s = run.now_s() + self._seconds
            scope.deadline_at_s = sooner(scope.deadline_at_s, at_s)
            scope.block_deadline_at_s = sooner(scope.block_deadline_at_s, at_s)
            self._cancel.deadline = anyio.current_time() + self._seconds
        self._cancel.__enter__()
        self._token = active.set(scope)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        if error is not None:
            self._scope.cancel_all("its scope failed")
        if self._cancel.cancel_called:
            self._scope.mark_handled()  # the block's own error stands for those of its nodes
        self._scope.hand_over(self._outer)
        self._raise_limit(kind, error, trace)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._note_progress()
        if error is None:
            try:
                await self._scope.end()
            except BaseException as late:
                self._leave()
                self._raise_limit(type(late), late, late.__traceback__)
                raise
        else:
            await self._scope.leave(error)
        self._leave()
        self._raise_limit(kind, error, trace)

    def _leave(self) -> None:
        assert self._token is not None
        active.reset(self._token)

    def _raise_limit(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the cancel scope and raise the limit that ended the block, if one did."""
        swallowed = bool(self._cancel.__exit__(kind, error, trace))
        if self._reached is not None and (swallowed or error is None):
            raise self._reached
        if swallowed or (self._cancel.cancelled_caught and error is None):
            self._note_progress()
            raise DeadlineExceeded(
                f"limits passed {self._seconds:g} s", progress=self._progress, where=self._site
            ) from None

    def _note_progress(self) -> None:
        """Note the path that took the time, before the rest is cancelled."""
        if not self._progress.path and self._cancel.cancel_called:
            self._progress = self._scope.run.progress()

    def _stop(self, error: LimitExceeded) -> None:
        if self._reached is None:
            self._reached = error
            error.where = error.where or self._site
            self._scope.cancel_all("the budget is used up")
            self._cancel.cancel()
