"""Rounding to nearest: codes, and scales that are exact in the type that stores them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.quantisation import quantised
from agentrt.engine.models.quantiser.rounding import RoundingScheme, group_scales, round_to_nearest

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def drawn(rows, inputs, seed=0, size=1.0):
    return torch.randn(rows, inputs, generator=torch.Generator().manual_seed(seed)) * size


@quick
@given(
    rows=st.integers(1, 20),
    groups=st.integers(1, 5),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([0, 32]),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    size=st.sampled_from([1e-4, 0.02, 30.0]),
    seed=st.integers(0, 5),
)
def test_values_become_the_nearest_steps_of_stored_scales(
    rows, groups, bits, group, dtype, size, seed
):
    weight = drawn(rows, groups * 32, seed, size)
    weight[0] = 0
    made = round_to_nearest(weight, RoundingScheme(bits, group, dtype))
    assert torch.equal(made.scales, made.scales.to(dtype).float())
    assert made.scales.shape == (rows, groups if group else 1)
    step = made.scales.abs().repeat_interleave(group or groups * 32, 1)
    error = (made.dequantize() - weight).abs()
    ends = (made.codes().float() - (8 if bits == 4 else 0)).abs() >= (7 if bits == 4 else 127)
    assert ((error <= 0.5001 * step) | ends).all()
    assert not made.dequantize()[0].any()


def test_four_bits_err_less_than_what_is_rounded_at_load():
    weight = drawn(256, 256, 1).bfloat16().float()
    made = round_to_nearest(weight, RoundingScheme(4, 32, torch.bfloat16)).dequantize()
    at_load = quantised(weight, 4, 32).dequantize()
    assert (made - weight).norm() < 1.001 * (at_load - weight).norm()


def test_a_scale_suits_the_inputs_that_weigh_most():
    weight = drawn(64, 32, 2)
    importance = torch.ones(32)
    importance[::4] = 100.0
    scheme = RoundingScheme(4, 32, torch.float32)

    def error(made):
        return float(((made.dequantize() - weight).square() * importance).sum())

    plain = error(round_to_nearest(weight, scheme))
    assert error(round_to_nearest(weight, scheme, importance)) < 0.9 * plain


def test_the_largest_value_takes_the_side_with_eight_steps():
    weight = torch.zeros(2, 32)
    weight[:, :8] = torch.arange(1.0, 9.0)
    weight[1] *= -1
    scheme = RoundingScheme(4, 32, torch.float32)
    assert group_scales(weight, scheme).flatten().tolist() == pytest.approx([-1.0, 1.0])
    assert torch.allclose(round_to_nearest(weight, scheme).dequantize(), weight)
