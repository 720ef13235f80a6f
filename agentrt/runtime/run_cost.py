"""Limit of cost of a whole run."""

from __future__ import annotations

from agentrt.base.config import RunConfig
from agentrt.base.errors import LimitExceeded, UsageError
from agentrt.program.cost_budget import CostBudget
from agentrt.runtime.options import RunOptions
from agentrt.runtime.run import Run


def run_limit_pico(config: RunConfig, options: RunOptions) -> int | None:
    """The limit of the options, or else of the runtime; None without one.

    Raises:
        UsageError: The limit is no amount above 0.
    """
    given = config.max_cost if options.max_cost is None else options.max_cost
    if given is None:
        return None
    from agentrt.base.money import pico_of

    limit_pico = pico_of(given, "max_cost")
    if limit_pico == 0:
        raise UsageError("max_cost=0 is out of range", hint="Give more than 0")
    return limit_pico


def run_budget(run: Run, limit_pico: int) -> CostBudget:
    """The budget of the money that a run may spend, which ends by `BudgetExceeded` beyond it.

    It is no block inside the program: the ids of nodes, and so their seeds, are the same with and
    without a limit.
    """

    def stop(error: LimitExceeded) -> None:
        task = None if run.root is None else run.tasks.get(run.root.id)
        if task is not None:  # else its program has just ended
            task.stop(error)

    return CostBudget(limit_pico, stop)
