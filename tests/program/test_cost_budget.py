"""A budget of money: whatever the order of ends, what is spent stays under the limit."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import BudgetExceeded, LimitExceeded
from agentrt.program.cost_budget import CostBudget

calls = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 100)), max_size=20)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.integers(1, 120), calls, st.randoms(use_true_random=False))
def test_spent_never_exceeds_the_limit(
    limit: int, calls: list[tuple[int, int]], dice: Random
) -> None:
    stopped: list[LimitExceeded] = []
    budget = CostBudget(limit, stopped.append)
    open_calls: list[tuple[int, int]] = []
    for most, percent in calls:
        while not budget.fits(most) and open_calls:
            budget.settle(*open_calls.pop(dice.randrange(len(open_calls))))
        if budget.fits(most):
            budget.reserve(most)
            open_calls.append((most, most * percent // 100))
        else:
            assert not budget.may_fit(most)
        assert budget.spent_pico + budget.reserved_pico <= limit
    dice.shuffle(open_calls)
    for most, cost in open_calls:
        budget.settle(most, cost)
    assert budget.reserved_pico == 0
    assert budget.spent_pico <= limit
    assert not stopped


def test_a_bill_beyond_the_reservation_ends_the_block() -> None:
    stopped: list[LimitExceeded] = []
    budget = CostBudget(10, stopped.append)
    budget.reserve(10)
    budget.settle(10, 11)
    assert isinstance(stopped[0], BudgetExceeded)
    assert "billed more tokens" in stopped[0].message
