"""How evenly tokens go to experts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.analysis.expert_load import added, busiest_experts, layer_load, mean_imbalance

layers = st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4).map(tuple), max_size=5).map(
    tuple
)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=9).map(tuple))
def test_a_layer_is_summed_up(counts):
    load = layer_load(counts)
    assert load.tokens == sum(counts)
    assert load.busiest_tokens == max(counts) == counts[load.busiest]
    assert load.idle == sum(one == 0 for one in counts)
    if load.tokens:
        assert 1 <= load.imbalance <= len(counts) + 1e-9
        assert load.imbalance * load.tokens == pytest.approx(len(counts) * max(counts))
    else:
        assert load.imbalance == 0


@given(st.lists(layers, max_size=4))
def test_counts_of_one_model_are_added(parts):
    alike = [one for one in parts if len(one) == len(parts[0])]
    expected = tuple(
        tuple(map(sum, zip(*layer, strict=True))) for layer in zip(*alike, strict=True)
    )
    assert added(parts) == expected or not any(parts[:1])


def test_the_busiest_come_first():
    counts = ((3, 0, 7), (7, 1, 0))
    assert busiest_experts(counts, 3) == ((0, 2, 7), (1, 0, 7), (0, 0, 3))
    assert mean_imbalance(counts) == pytest.approx((2.1 + 7 * 3 / 8) / 2)
    assert mean_imbalance(()) == 0
