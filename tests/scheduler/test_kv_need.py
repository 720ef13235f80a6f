"""What a run is let in with: its peak, or half of the memory where that comes in waves."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import RunId
from agentrt.protocol.events import RunStarted
from agentrt.scheduler import Estimates
from agentrt.scheduler.admission.kv_need import WAVE_SHARE, engine_site, kv_need
from agentrt.scheduler.runs.fair_share import FairShare
from agentrt.scheduler.runs.run import RunState, template_of

Make = Callable[..., Any]
WIDE = template_of("wide", "p.py")


def learned(peak: float, longest: float | None, into: Estimates | None = None) -> Estimates:
    """Past runs of a template; None where the longest context was not kept."""
    estimates = into or Estimates()
    place = estimates.site(WIDE, engine_site("default"))
    for _ in range(10):
        place.observe("context_tokens", peak)
        if longest is not None:
            place.observe("longest_tokens", longest)
    return estimates


def entry(peak: float, longest: float | None) -> float:
    """Of a run that waits for an engine of which a thousand tokens may be set aside."""
    started = RunStarted(RunId("r"), "wide", "p.py", 0.0, 0)
    run = RunState.begin(started, learned(peak, longest), FairShare().begin_run(""))
    need = kv_need(run, "default", 1000.0)
    assert need.peak_tokens == pytest.approx(peak)
    return need.entry_tokens


def test_a_wide_fork_is_let_in_with_half_and_a_long_context_with_all_of_it() -> None:
    assert entry(1400.0, 200.0) == 500.0
    assert entry(700.0, 700.0) == 700.0
    assert entry(1400.0, 800.0) == 800.0
    assert entry(400.0, 100.0) == 400.0
    assert entry(1400.0, None) == 1400.0


@settings(deadline=None, derandomize=True)
@given(peak=st.floats(1.0, 5000.0), share=st.floats(0.01, 1.0))
def test_never_more_than_the_peak_and_never_less_than_the_longest(
    peak: float, share: float
) -> None:
    longest = share * peak
    found = entry(peak, longest)
    assert longest <= found * (1 + 1e-9)
    assert found <= peak * (1 + 1e-9)
    assert found <= max(longest, WAVE_SHARE * 1000.0, peak if peak <= 500.0 else 0.0) * (1 + 1e-9)


def test_a_wide_fork_does_not_wait_until_the_engine_is_empty(world: Make, job: Any) -> None:
    """Before, it was let in alone: what ran had to end, and nothing else began while it waited."""
    jobs = [job(1.0, (20.0,), 450, "chain"), job(2.0, (5.0,), 1400, "wide")]
    one = world(1250, jobs)
    learned(1400.0, 200.0, into=one.state.estimates)
    one.run(jobs)
    assert [done.began_at_s for done in jobs] == [1.0, 2.0]
    told = {verdict.reason: dict(verdict.terms) for _, verdict in one.admissions()}
    terms = told["it fits, its branches in waves"]
    assert terms["peak_tokens"] == pytest.approx(1400.0)
    assert terms["entry_tokens"] == 500.0
    assert terms["committed_tokens"] + terms["entry_tokens"] <= terms["limit_tokens"]
    again = [job(1.0, (20.0,), 450, "chain"), job(2.0, (5.0,), 1400, "wide")]
    alone = world(1250, again)
    alone.run(again)
    assert again[1].began_at_s > 20.0
