"""How long a prefix stays, and when it comes back: pure decisions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import NodeDeclared, RunStarted
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler import State, apply
from agentrt.scheduler.retention import (
    DEFAULT_GAP_S,
    MIN_LONG_GAP_S,
    Gap,
    ReloadCost,
    advise_retention,
    expected_gap,
)
from agentrt.scheduler.runs.run import NodeState

RUN = RunId("0" * 16)
seconds = st.floats(0, 1e4)


def a_tool(*samples: float, name: str = "t", started_at_s: float | None = None) -> NodeState:
    state = State()
    apply(state, RunStarted(RUN, "p", "p.py:p", 0.0, 0))
    apply(state, NodeDeclared(RUN, NodeId(name), "tool", name, None, (), "p.py:1", 0.0))
    node = state.node(RUN, NodeId(name))
    assert node is not None
    for sample in samples:
        node.estimates.observe("tool_s", sample)
    node.started_at_s = started_at_s
    return node


def test_the_gap_is_that_of_the_slowest() -> None:
    quick, slow = a_tool(*[1.0] * 5, name="q"), a_tool(*[4.0] * 5, name="s")
    gap = expected_gap([quick, slow], 0.0)
    assert gap is not None
    assert gap.p50_s == pytest.approx(4.0)
    assert expected_gap([quick, a_tool(name="new")], 0.0) is None


def test_what_has_lasted_is_taken_off() -> None:
    tool = a_tool(*[4.0] * 5, started_at_s=10.0)
    gap = expected_gap([tool], 13.0)
    assert gap is not None
    assert gap.p50_s == pytest.approx(1.0)


def test_what_is_overdue_lasts_half_as_long_again() -> None:
    tool = a_tool(*[4.0] * 5, started_at_s=0.0)
    gap = expected_gap([tool], 20.0)
    assert gap is not None
    assert (gap.p50_s, gap.p75_s) == (10.0, 10.0)


@settings(max_examples=200, derandomize=True)
@given(p50_s=seconds, more_s=seconds, tokens=st.integers(1, 100_000), now_s=seconds)
def test_a_keep_ends_soon_after_three_of_four_would_be_back(
    p50_s: float, more_s: float, tokens: int, now_s: float
) -> None:
    gap = Gap(p50_s, p50_s + more_s)
    advice = advise_retention(gap, tokens, reload_cost=None, now_s=now_s)
    assert advice.hint == "keep"
    assert advice.until_s is not None
    assert gap.p75_s <= advice.until_s - now_s + 1e-6 <= gap.p75_s * 1.3 + 0.1


@settings(max_examples=200, derandomize=True)
@given(p50_s=seconds, tokens=st.integers(1, 100_000), token_s=st.floats(1e-7, 1e-3))
def test_demoted_is_what_waits_longer_than_it_takes_to_come_back(
    p50_s: float, tokens: int, token_s: float
) -> None:
    reloads = ReloadCost(token_s)
    advice = advise_retention(Gap(p50_s, p50_s), tokens, reload_cost=reloads, now_s=100.0)
    reload_s = tokens * token_s
    if p50_s > max(MIN_LONG_GAP_S, 2 * reload_s):
        assert advice.hint == "demote"
        assert advice.prefetch_at_s is not None
        assert advice.prefetch_at_s == pytest.approx(100.0 + p50_s - 1.5 * reload_s)
        assert advice.prefetch_at_s > 100.0
    else:
        assert advice.hint == "keep"


def test_of_what_nobody_knows_a_while_is_assumed() -> None:
    assert (
        advise_retention(None, 500, reload_cost=ReloadCost(), now_s=7.0).until_s
        == 7.0 + DEFAULT_GAP_S
    )


def test_reloads_learn_from_ledgers() -> None:
    reloads = ReloadCost(1e-6)
    for _ in range(60):
        reloads.note_reload(Ledger(kv_reload_s=0.01, cached_host_tokens=1000))
    assert reloads.token_s == pytest.approx(1e-5, rel=0.01)
    reloads.note_reload(Ledger(kv_reload_s=0.0, cached_host_tokens=0))
    assert reloads.token_s == pytest.approx(1e-5, rel=0.01)
