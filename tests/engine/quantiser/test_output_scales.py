"""Scales by the error of outputs: lower than by weights, exact as stored, and safe where unseen."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.quantiser.input_statistics import InputStatistics, output_error
from agentrt.engine.models.quantiser.output_scales import output_scales, round_by_outputs
from agentrt.engine.models.quantiser.rounding import (
    RoundingScheme,
    group_scales,
    round_to_nearest,
)


def moments_of(x):
    statistics = InputStatistics(x.shape[1])
    statistics.add(x)
    return statistics.hessian


def inputs_that_go_together(width, seed):
    """Inputs about a common part, as behind a norm whose outputs have a mean."""
    draws = torch.Generator().manual_seed(seed)
    common = torch.randn(400, 1, generator=draws) + 1
    return common + 0.3 * torch.randn(400, width, generator=draws)


@pytest.mark.parametrize("group", [32, 128])
def test_the_error_of_outputs_is_lower_than_by_the_moments_of_each_input(group):
    draws = torch.Generator().manual_seed(group)
    weight = torch.randn(64, 128, generator=draws) * 0.05
    hessian = moments_of(inputs_that_go_together(128, 5))
    scheme = RoundingScheme(4, group, torch.bfloat16)

    def error(made):
        return output_error(made.dequantize() - weight, hessian)

    by_inputs = error(round_to_nearest(weight, scheme, hessian.diagonal()))
    assert error(round_by_outputs(weight, scheme, hessian)) < 0.5 * by_inputs


@given(
    seed=st.integers(0, 2**16),
    group=st.sampled_from([8, 16, 0]),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
)
@settings(max_examples=30, deadline=None)
def test_scales_are_exact_in_their_type_and_no_group_gets_worse(seed, group, dtype):
    """Beside those of the squared error of the weights, which are among what is tried."""
    draws = torch.Generator().manual_seed(seed)
    weight = torch.randn(6, 16, generator=draws)
    scheme = RoundingScheme(4, group, dtype)
    scales = output_scales(weight, scheme, torch.eye(16))
    assert torch.equal(scales, scales.to(dtype).float())
    found = round_by_outputs(weight, scheme, torch.eye(16)).dequantize() - weight
    plain = round_to_nearest(weight, scheme).dequantize() - weight
    size = scheme.group_size(16)

    def errors(change):
        return change.view(6, -1, size).square().sum(-1)

    assert bool((errors(found) <= errors(plain) * (1 + 1e-4) + 1e-6).all())


def test_inputs_that_calibration_never_saw_keep_their_weights():
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    x = inputs_that_go_together(64, 2)
    x[:, :32] = 0
    x[:, 40] = 0
    made = round_by_outputs(weight, RoundingScheme(4, 32, torch.float32), moments_of(x))
    change = (made.dequantize() - weight)[:, [*range(32), 40]]
    assert float(change.norm()) < 0.2 * float(weight[:, [*range(32), 40]].norm())


def test_a_matrix_of_zeros_stays_so():
    scheme = RoundingScheme(4, 8, torch.bfloat16)
    made = round_by_outputs(torch.zeros(4, 16), scheme, torch.eye(16))
    assert torch.equal(made.dequantize(), torch.zeros(4, 16))


@pytest.mark.parametrize(("bits", "width"), [(8, 64), (4, 2048)])
def test_eight_bits_and_wide_groups_weigh_each_input_alone(bits, width):
    weight = torch.randn(4, width, generator=torch.Generator().manual_seed(3))
    hessian = torch.diag(torch.rand(width, generator=torch.Generator().manual_seed(4)) + 0.1)
    scheme = RoundingScheme(bits, 0, torch.float32)
    expected = group_scales(weight, scheme, hessian.diagonal())
    assert torch.equal(output_scales(weight, scheme, hessian), expected)
