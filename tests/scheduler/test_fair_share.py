"""Virtual-time counters of tenants."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler.runs.fair_share import FairShare, TenantAccount


def test_one_tenant_owes_nobody() -> None:
    tenants = FairShare()
    account = tenants.begin_run("a")
    account.charge(100.0)
    assert account.debt_s == 0.0


def test_debts_are_what_each_had_beyond_the_mean() -> None:
    tenants = FairShare()
    one, other = tenants.begin_run("a"), tenants.begin_run("b")
    one.charge(6.0)
    other.charge(2.0)
    assert (one.debt_s, other.debt_s) == (2.0, -2.0)


def test_the_larger_of_steps_and_memory_counts() -> None:
    tenants = FairShare()
    one, other = tenants.begin_run("a"), tenants.begin_run("b")
    one.charge(1.0, 6.0)
    other.charge(4.0, 2.0)
    assert one.debt_s == pytest.approx(1.0)


def test_nobody_saves_up_while_idle() -> None:
    tenants = FairShare()
    busy, late = tenants.begin_run("busy"), tenants.begin_run("late")
    tenants.end_run(late)
    busy.charge(50.0)
    late = tenants.begin_run("late")
    assert (busy.debt_s, late.debt_s) == (0.0, 0.0)


def test_what_was_had_before_a_pause_is_still_owed() -> None:
    tenants = FairShare()
    busy, other = tenants.begin_run("busy"), tenants.begin_run("other")
    other.charge(20.0)
    tenants.end_run(other)
    busy.charge(5.0)
    assert tenants.begin_run("other").debt_s == pytest.approx(7.5)


def test_moves_are_told_once_a_quantum() -> None:
    tenants = FairShare()
    one, _ = tenants.begin_run("a"), tenants.begin_run("b")
    moved = []
    for _ in range(10):
        one.charge(1.0)
        moved.append(one.debt_changed(2.0))
    assert sum(moved) == 2, "a debt of 5 s is two quanta"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["begin", "end", "charge"]),
            st.floats(0.0, 10.0),
        ),
        max_size=60,
    )
)
def test_debts_of_the_active_sum_to_nothing(steps: list[tuple[str, str, float]]) -> None:
    tenants = FairShare()
    runs: dict[str, list[TenantAccount]] = {name: [] for name in "abc"}
    for name, what, seconds in steps:
        if what == "begin":
            runs[name].append(tenants.begin_run(name))
        elif what == "end" and runs[name]:
            tenants.end_run(runs[name].pop())
        elif runs[name]:
            before = runs[name][-1].counter_s
            runs[name][-1].charge(seconds, seconds / 2)
            assert runs[name][-1].counter_s == pytest.approx(before + seconds)
        debts = [account.debt_s for account in tenants.active.values()]
        assert sum(debts) == pytest.approx(0.0, abs=1e-6)
        assert set(tenants.active) == {name for name, known in runs.items() if known}
