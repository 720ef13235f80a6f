"""What is learned: quantiles, decay, fallback, branches, and rows that come back as they were."""

import math
from statistics import fmean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler.estimates.estimates import (
    MAX_DEPTH,
    MAX_SITES,
    Estimates,
    Quantity,
    likely_path,
    site_of,
)
from agentrt.scheduler.estimates.histogram import DecayedHistogram
from agentrt.scheduler.estimates.row import DECAY, EstimateRow

VALUES = st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=60)
BUCKET = (1e10) ** (1 / 64)
"""Largest over smallest value of one bucket."""


def learned(values: list[float]) -> DecayedHistogram:
    found = DecayedHistogram()
    for value in values:
        found.add_value(value)
    return found


def weighted(values: list[float]) -> list[tuple[float, float]]:
    return [(value, DECAY**age) for age, value in enumerate(reversed(values))]


@settings(derandomize=True, max_examples=60)
@given(VALUES)
def test_moments_are_those_of_the_decayed_sample(values: list[float]) -> None:
    found, sample = learned(values), weighted(values)
    total = sum(weight for _, weight in sample)
    mean = sum(value * weight for value, weight in sample) / total
    log_mean = sum(math.log(value) * weight for value, weight in sample) / total
    log_var = sum((math.log(v) - log_mean) ** 2 * w for v, w in sample) / total
    assert found.count == len(values)
    assert found.mean == pytest.approx(mean)
    assert found.log_mean == pytest.approx(log_mean, abs=1e-6)
    assert found.log_var == pytest.approx(log_var, abs=1e-5)


@settings(derandomize=True, max_examples=60)
@given(VALUES, st.floats(0.01, 1.0))
def test_a_quantile_is_right_to_one_bucket(values: list[float], share: float) -> None:
    found, sample = learned(values), sorted(weighted(values))
    wanted = share * sum(weight for _, weight in sample)
    true = sample[-1][0]
    for value, weight in sample:
        wanted -= weight
        if wanted <= 1e-9:
            true = value
            break
    assert true / BUCKET / 1.001 <= found.quantile(share) <= true * BUCKET * 1.001
    assert found.p50 <= found.p90 * (1 + 1e-9)


def test_a_constant_comes_back_exactly_and_old_times_fade() -> None:
    found = learned([7.25] * 50)
    assert [found.p50, found.p90] == pytest.approx([7.25, 7.25])
    for _ in range(400):
        found.add_value(100.0)
    assert found.p50 == pytest.approx(100.0)
    assert found.mean == pytest.approx(100.0, rel=0.02)


def test_a_site_that_writes_longer_is_known_anew_within_so_many_runs() -> None:
    """Half of the weight is that of the last 69; nine tenths that of the last 230."""
    place = Estimates().site("p", "report")
    for _ in range(1000):
        place.observe("output_tokens", 50.0)
    after: dict[str, int] = {}
    for number in range(1, 400):
        place.observe("output_tokens", 500.0)
        if place.p90("output_tokens") > 400:
            after.setdefault("p90", number)
        if place.p50("output_tokens") > 400:
            after.setdefault("p50", number)
        if place.mean("output_tokens") > 0.9 * 500:
            after.setdefault("mean", number)
    assert after == {"p90": 11, "p50": 69, "mean": 219}


def test_what_changed_in_one_process_is_known_in_the_next() -> None:
    """Decay goes on where the store left off, as if there had been no end between."""
    table = Estimates()
    whole = Estimates()
    for value in [50.0] * 200 + [500.0] * 100:
        for one in (table, whole):
            one.site("p", "report").observe("output_tokens", value)
        table = Estimates(table.rows())
    found, wanted = (t.site("p", "report").histograms["output_tokens"] for t in (table, whole))
    assert found.mean == pytest.approx(wanted.mean)
    assert (found.p50, found.p90) == pytest.approx((wanted.p50, wanted.p90))
    assert found.p50 == pytest.approx(500.0)


def test_many_observations_stay_finite() -> None:
    found = learned([2.0] * 6000)  # past the point at which weights are scaled back
    assert found.mean == pytest.approx(2.0)
    assert found.p90 == pytest.approx(2.0)
    assert found.to_sums()["weight"] == pytest.approx(1 / (1 - DECAY))


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_what_is_no_quantity_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="cannot be learned from"):
        DecayedHistogram().add_value(value)


@settings(derandomize=True, max_examples=40)
@given(VALUES, VALUES)
def test_sums_are_linear_and_come_back(first: list[float], more: list[float]) -> None:
    one = learned(first)
    again = DecayedHistogram.from_sums(one.count, one.to_sums())
    assert again.to_sums() == pytest.approx(one.to_sums())
    for value in more:
        one.add_value(value)
        again.add_value(value)
    assert again.to_sums() == pytest.approx(one.to_sums())
    apart = learned(more).to_sums()
    before = learned(first).to_sums()
    faded = DECAY ** len(more)
    for name, value in one.to_sums().items():
        assert value == pytest.approx(before.get(name, 0.0) * faded + apart.get(name, 0.0))


@pytest.mark.parametrize("sums", [{}, {"weight": 0.0, "total": 0, "log": 0, "square": 0}])
def test_other_sums_are_refused(sums: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no sums of a sample"):
        DecayedHistogram.from_sums(1, sums)


def test_a_place_with_few_samples_answers_with_what_stands_above() -> None:
    table = Estimates()
    assert table.site("p", "a").histogram_of("output_tokens") is None
    for value in (10.0, 20.0, 30.0):
        table.site("p", "a").observe("output_tokens", value)
    for value in (100.0, 100.0):
        table.site("p", "b").observe("output_tokens", value)
    assert table.site("p", "a").mean("output_tokens") == pytest.approx(20.1, abs=0.2)
    assert table.site("p", "b").mean("output_tokens") == pytest.approx(52, abs=1), "its template"
    assert table.site("q", "c").p50("output_tokens") > 0.0, "of everything"
    assert table.site("p", "a", 4).p50("output_tokens") == table.site("p", "a").p50("output_tokens")
    table.site("p", "b").observe("output_tokens", 100.0)
    assert table.site("p", "b").mean("output_tokens") == pytest.approx(100.0), "three are enough"


PLACES = st.sampled_from([("p", "", None), ("p", "a", None), ("p", "a", 2), ("q", "b", None)])
LEARNED = st.tuples(PLACES, st.sampled_from(["path_s", "depth", "rest_s", "busy_s"]))


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.tuples(LEARNED, st.floats(0.1, 100.0)), min_size=3, max_size=24), st.data())
def test_an_outlook_is_what_was_learned_until_now(
    seen: list[tuple[tuple[tuple[str, str, int | None], Quantity], float]], data: st.DataObject
) -> None:
    """Also where a place above it has learned, or rows were loaded."""
    table = Estimates()
    stored: list[EstimateRow] = []
    load_at = data.draw(st.integers(0, len(seen) - 1))
    for at, ((place, quantity), value) in enumerate(seen):
        table.site(*place).observe(quantity, value)
        if at == load_at // 2:
            stored = list(table.rows())
        if at == load_at:
            table.load_rows(stored)
        for here in (table.site("p", "a", 2), table.site("p", "a"), table.site("q", "b")):
            outlook = here.outlook()
            if here.histogram_of("path_s") is None:
                assert outlook is None
                continue
            assert outlook is not None
            assert (outlook.path_p50_s, outlook.path_p90_s) == (
                here.p50("path_s"),
                here.p90("path_s"),
            )
            assert (outlook.depth, outlook.rest_s) == (here.mean("depth"), here.mean("rest_s"))


def test_a_busy_site_does_not_drown_others_above() -> None:
    table = Estimates()
    for _ in range(1000):
        table.site("p", "busy").observe("busy_s", 1.0)
    for _ in range(8):
        table.site("p", "rare").observe("busy_s", 9.0)
    above = table.site("p").histograms["busy_s"]
    assert above.count == 8 + 124 + 8
    assert above.mean > 1.5


def test_what_follows_is_a_probability_for_each_site() -> None:
    place = Estimates().site("p", "plan")
    for turn in range(10):
        place.observe_next(("tool", "other") if turn % 2 else ("tool",))
    follows = place.next_probabilities()
    assert list(follows) == ["tool", "other"]
    assert follows["tool"] == pytest.approx(1.0)
    assert follows["other"] == pytest.approx(0.5, abs=0.01)


def test_two_passages_tell_nothing_yet() -> None:
    place = Estimates().site("p", "plan")
    place.observe_next(("tool",))
    place.observe_next(("tool",))
    assert place.next_probabilities() == {}


@settings(derandomize=True, max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("pq"), st.sampled_from("ab"), st.integers(0, 3), VALUES),
        max_size=6,
    )
)
def test_rows_come_back(seen: list[tuple[str, str, int, list[float]]]) -> None:
    table = Estimates()
    for template, site, depth, values in seen:
        for value in values:
            table.site(template, site, depth).observe("rest_s", value)
        table.site(template, site).observe_next(("a", ""))
    again = Estimates(table.rows())
    one = {(r.template, r.site, r.depth, r.quantity): r for r in table.rows()}
    two = {(r.template, r.site, r.depth, r.quantity): r for r in again.rows()}
    assert one.keys() == two.keys()
    for key, row in one.items():
        assert two[key].count == row.count
        assert two[key].sums == pytest.approx(row.sums)


def test_a_row_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing that is learned"):
        Estimates([EstimateRow("p", "a", None, "colour", 1, {})])


def test_depths_beyond_the_last_are_one() -> None:
    table = Estimates()
    assert table.site("p", "a", MAX_DEPTH) is table.site("p", "a", 10_000)


def test_names_without_end_do_not_fill_the_memory() -> None:
    table = Estimates()
    for number in range(3 * MAX_SITES):
        table.site("p", f"site {number}", 1).observe("rest_s", 1.0)
    assert len(table) <= MAX_SITES + 2
    assert table.site("p").histogram_of("rest_s") is not None


def test_the_likeliest_chain_is_told_with_its_times() -> None:
    table = Estimates()
    plan, tool = site_of("plan", "p.py:3"), site_of("tool", "p.py:4")
    for _ in range(5):
        for site, took_s, then in ((plan, 1.0, tool), (tool, 2.5, "")):
            table.site("p", site).observe("busy_s", took_s)
            table.site("p", site).observe_next((then,))
    assert likely_path(table, "p", plan) == {plan: pytest.approx(1.0), tool: pytest.approx(2.5)}


def test_the_decayed_mean_of_two_is_no_plain_mean() -> None:
    values = [1.0, 3.0]
    assert learned(values).mean > fmean(values)
    assert learned([1.0, 3.0, 9.0]).p50 == pytest.approx(median([1.0, 3.0, 9.0]))
