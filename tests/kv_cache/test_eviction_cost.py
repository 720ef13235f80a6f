"""Guarded density against every choice there is."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.kv_cache.eviction_cost import Candidate, cheapest_cuts

costs = st.floats(0.0, 10.0)
candidates = st.lists(st.builds(Candidate, st.integers(1, 5), costs, costs), min_size=1, max_size=4)


def cost_of(choice, cuts):
    return sum(choice[at].cost(pages) for at, pages in cuts)


def least(choice, wanted):
    """The least cost of freeing so many pages, over every way to cut every candidate."""
    ways = product(*(range(one.pages + 1) for one in choice))
    enough = (way for way in ways if sum(way) >= wanted)
    return min(
        sum(one.cost(pages) for one, pages in zip(choice, way, strict=True)) for way in enough
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(choice=candidates, wanted=st.integers(1, 12))
def test_at_most_twice_the_least_cost(choice, wanted):
    cuts = cheapest_cuts(choice, wanted)
    freed = sum(pages for _, pages in cuts)
    there = sum(one.pages for one in choice)
    assert freed == min(wanted, there)
    assert len({at for at, _ in cuts}) == len(cuts)
    assert all(1 <= pages <= choice[at].pages for at, pages in cuts)
    if there >= wanted:
        assert cost_of(choice, cuts) <= 2 * least(choice, wanted) + 1e-9


@settings(max_examples=200, deadline=None, derandomize=True)
@given(pages=st.lists(st.integers(1, 5), min_size=1, max_size=5), wanted=st.integers(1, 15))
def test_without_fixed_costs_it_is_the_least_cost(pages, wanted):
    choice = [Candidate(count, 1.0 / (1 + at)) for at, count in enumerate(pages)]
    if sum(pages) >= wanted:
        assert cost_of(choice, cheapest_cuts(choice, wanted)) == pytest.approx(
            least(choice, wanted)
        )


def test_the_guard_spares_a_large_one_whose_pages_look_cheap():
    """Without it the large one goes first, for its pages are the cheapest by far."""
    large, small = Candidate(1000, 0.001, 5.0), Candidate(1, 0.2)
    assert cheapest_cuts([large, small], 1) == [(1, 1)]
    assert cheapest_cuts([large, small], 500) == [(0, 500)]


def test_equal_ones_go_in_the_order_given():
    same = [Candidate(2, 0.5)] * 3
    assert cheapest_cuts(same, 3) == [(0, 2), (1, 1)]
