"""Rates, costs and lengths of drafts: pure functions of what was accepted and how long it took."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.drafts.acceptance import (
    ENGINE_MEMORY,
    SEQUENCE_MEMORY,
    SITE_MEMORY,
    AcceptanceRates,
    RateKey,
)
from agentrt.engine.drafts.draft_costs import LEAST_COST
from agentrt.engine.drafts.probes import MOST_ROWS, Probes
from agentrt.engine.drafts.row_sharing import share_rows
from agentrt.engine.drafts.step_times import CUDA_ROW_SHARE, ROW_SHARE, StepTimes

SITE: RateKey = ("site", True)


def test_rates_follow_what_was_accepted() -> None:
    rates = AcceptanceRates(SEQUENCE_MEMORY)
    first = rates.rate(SITE)
    for _ in range(30):
        rates.note(SITE, 8, is_whole=True)
    assert all(rates.rate(SITE, at) > 0.9 for at in range(8))
    assert rates.rate(("site", False)) == first
    for _ in range(60):
        rates.note(SITE, 0, is_whole=False)
    assert 0.0 < rates.rate(SITE) < 0.15


def test_each_place_of_a_draft_has_a_rate() -> None:
    """Of drafts that are right for two tokens, no third is worth a row."""
    rates = AcceptanceRates(SITE_MEMORY)
    for _ in range(30):
        rates.note(SITE, 2, is_whole=False)
    chances = rates.chances(SITE, 15)
    assert min(chances[:2]) > 0.8
    assert chances[2] < 0.15
    assert chances == sorted(chances, reverse=True)


def test_a_sequence_leans_on_its_site_until_it_knows_better() -> None:
    engine = AcceptanceRates(ENGINE_MEMORY)
    site = AcceptanceRates(SITE_MEMORY, engine)
    failing = AcceptanceRates(SEQUENCE_MEMORY, site)
    for _ in range(30):
        failing.note(SITE, 0, is_whole=False)
    other = AcceptanceRates(SEQUENCE_MEMORY, site)
    assert other.rate(SITE) < 0.1
    assert AcceptanceRates(SITE_MEMORY, engine).rate(SITE) < 0.1
    for _ in range(6):
        other.note(SITE, 1, is_whole=True)
    assert other.rate(SITE) > 0.6
    assert failing.rate(SITE) < 0.1


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    drafts=st.lists(st.lists(st.floats(0.05, 0.99), max_size=5), max_size=4),
    first=st.floats(0.0, 0.5),
    rise=st.floats(0.0, 0.3),
    limit=st.integers(0, 12),
)
def test_shared_rows_gain_most(
    drafts: list[list[float]], first: float, rise: float, limit: int
) -> None:
    """No other lengths gain more than those given: one token more or less, in any two drafts."""
    chances = []
    for rates in drafts:
        chance, each = 1.0, []
        for rate in rates:
            chance *= rate
            each.append(chance)
        chances.append(each)

    def gain(lengths: list[int]) -> float:
        rows = sum(lengths)
        right = sum(sum(one[:count]) for one, count in zip(chances, lengths, strict=True))
        return right - sum(first + rise * at for at in range(rows))

    lengths = share_rows(chances, lambda rows: first + rise * rows, limit)
    assert sum(lengths) <= limit
    for one in range(len(lengths)):
        for other in range(len(lengths)):
            for change in (-1, 0, 1):
                tried = list(lengths)
                tried[one] += 1
                tried[other] += change
                fits = all(0 <= n <= len(c) for n, c in zip(tried, chances, strict=True))
                if fits and sum(tried) <= limit:
                    assert gain(tried) <= gain(lengths) + 1e-9
        if lengths[one]:
            fewer = list(lengths)
            fewer[one] -= 1
            assert gain(fewer) <= gain(lengths) + 1e-9


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize(("base_s", "knee", "row_s"), [(4e-4, 0, 6e-5), (0.02, 16, 2e-3)])
def test_the_cost_of_a_row_is_learned_by_the_rows_before_it(
    base_s: float, knee: int, row_s: float, interrupted: bool
) -> None:
    """From noisy steps, a few of them interrupted; the first one loads what the others need."""
    random, times = Random(0), StepTimes()
    for number in range(300):
        draft_rows = random.choice([0, 0, 1, 2, 4, 7, 15])
        rows = random.choice([1, 2, 4]) + draft_rows
        if random.random() < 0.1:
            rows += random.randrange(20, 200)
        took_s = base_s + row_s * max(0, rows - knee) + 0.02 * base_s * draft_rows
        took_s *= random.lognormvariate(0.0, 0.1)
        if number == 0 or (interrupted and random.random() < 0.05):
            took_s *= 20
        times.add(rows, rows + 300, draft_rows, took_s)
    assert times.step_s(1, 300) == pytest.approx(base_s + row_s * (knee == 0), rel=0.15)
    for rows in (1, 2, 30, 50, 90):
        expected_s = row_s * (rows >= knee) + 0.02 * base_s
        assert times.draft_row_s(rows) == pytest.approx(expected_s, rel=0.3, abs=0.03 * base_s)


@pytest.mark.parametrize("row_share", [CUDA_ROW_SHARE, ROW_SHARE])
def test_a_slow_first_step_is_soon_forgotten(row_share: float) -> None:
    """It compiles kernels; what no step has shown yet is then thought to cost its usual share."""
    times = StepTimes(row_share)
    times.add(4096, 4096, 0, 2.0)
    for number in range(20):
        times.add(16, 5000 + 16 * number, 0, 0.002)
    assert times.draft_row_s(16) <= 3 * 2 * row_share * 0.002


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 300), st.integers(0, 9000), st.integers(0, 20), st.floats(1e-5, 9.0)
        ),
        min_size=1,
        max_size=60,
    )
)
def test_more_rows_never_take_less_time(steps: list[tuple[int, int, int, float]]) -> None:
    """Nor does a row cost less behind more rows, whatever the steps took."""
    times = StepTimes()
    for step in steps:
        times.add(*step)
    rows = range(200)
    seconds = [times.step_s(count, 1000) for count in rows]
    assert seconds == sorted(seconds)
    costs = [times.draft_row_s(count) for count in rows]
    assert costs == sorted(costs)
    assert costs[0] >= 0.0


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    costs=st.lists(st.floats(0.0, 0.3), min_size=1, max_size=20),
    sites=st.integers(1, 6),
    rows=st.integers(100, 3000),
)
def test_a_source_that_always_fails_wastes_little(
    costs: list[float], sites: int, rows: int
) -> None:
    """At most 60 tokens an engine, 10 a site and 10 a sequence, then one in 64 rows.

    However cheap rows seem: a row costs `LEAST_COST` at least.
    """
    engine, probes = AcceptanceRates(ENGINE_MEMORY), Probes()
    site_rates = [AcceptanceRates(SITE_MEMORY, engine) for _ in range(sites)]
    sequence_rates = [AcceptanceRates(SEQUENCE_MEMORY, one) for one in site_rates * 3]
    wasted = 0
    for row in range(rows):
        rates = sequence_rates[row % len(sequence_rates)]
        cost = max(LEAST_COST, costs[row % len(costs)])
        tokens = sum(chance > cost for chance in rates.chances(SITE, 15))
        tokens = tokens or int(probes.is_due(SITE[0]))
        wasted += tokens
        if tokens:
            rates.note(SITE, 0, is_whole=False)
    assert wasted <= 60 + 10 * sites + 10 * len(sequence_rates) + rows / 64


def test_a_failing_source_is_tried_ever_more_rarely() -> None:
    probes = Probes()
    tried = [row for row in range(10_000) if probes.is_due("site")]
    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert tried[0] < 64
    assert waits == sorted(waits)
    assert waits[-1] == MOST_ROWS
    probes.note_paying("site")
    assert sum(probes.is_due("site") for _ in range(64)) == 1
