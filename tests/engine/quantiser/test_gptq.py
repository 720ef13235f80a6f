"""GPTQ against its definition, written out column by column in fp64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.quantiser.gptq import gptq, inverse_root
from agentrt.engine.models.quantiser.input_statistics import output_error
from agentrt.engine.models.quantiser.rounding import RoundingScheme, group_scales, round_to_nearest

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def case(rows, inputs, seed, tokens=300):
    """A matrix, and the Hessian of inputs that depend on each other."""
    source = torch.Generator().manual_seed(seed)
    weight = torch.randn(rows, inputs, generator=source) * 0.1
    mix = torch.randn(inputs, inputs, generator=source) * 0.3 + torch.eye(inputs)
    sizes = torch.rand(inputs, generator=source) * 3 + 0.1
    x = torch.randn(tokens, inputs, generator=source) @ mix * sizes
    return weight, x.t() @ x / tokens


def by_definition(weight, hessian, scheme, damping, orders):
    """Round a column, and move the rest to where the outputs change least, given what is rounded.

    The rest of the optimal brain surgeon: for each column the inverse of what is left of the
    Hessian, computed anew.
    """
    weight, hessian = weight.double(), hessian.double()
    inputs = weight.shape[1]
    size = scheme.group or inputs
    scales = group_scales(weight.float(), scheme, hessian.diagonal().float()).double()
    damped = hessian + torch.eye(inputs).double() * damping * hessian.diagonal().mean()
    order = hessian.diagonal().argsort(descending=True, stable=True).tolist()
    order = order if orders else list(range(inputs))
    made = torch.zeros_like(weight)
    for at, column in enumerate(order):
        left = order[at:]
        inverse = torch.linalg.inv(damped[left][:, left])
        scale = scales[:, column // size]
        least, most = (-8, 7) if scheme.bits == 4 else (-127, 127)
        made[:, column] = (weight[:, column] / scale).round().clamp(least, most) * scale
        error = (weight[:, column] - made[:, column]) / inverse[0, 0]
        weight[:, left] -= error[:, None] * inverse[0][None]
    return made


@quick
@given(
    rows=st.integers(1, 9),
    groups=st.integers(1, 5),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([0, 32]),
    seed=st.integers(0, 20),
)
def test_columns_are_rounded_as_defined(rows, groups, bits, group, seed):
    weight, hessian = case(rows, groups * 32, seed)
    scheme = RoundingScheme(bits, group, torch.float32)
    found = gptq(weight, hessian, scheme, damping=0.01).dequantize()
    expected = by_definition(weight, hessian, scheme, 0.01, orders=True).float()
    # A tie that falls the other way moves a few of the columns behind it by a step.
    assert torch.isclose(found, expected, atol=1e-5).float().mean() > 0.97
    assert output_error(found - weight, hessian) == pytest.approx(
        output_error(expected - weight, hessian), rel=0.05
    )


def test_columns_in_their_order_are_rounded_as_defined():
    weight, hessian = case(8, 32, 3)  # one group: its scale is chosen before any is rounded
    scheme = RoundingScheme(4, 32, torch.float32)
    found = gptq(weight, hessian, scheme, orders_inputs=False).dequantize()
    expected = by_definition(weight, hessian, scheme, 0.01, orders=False).float()
    assert torch.isclose(found, expected, atol=1e-5).float().mean() > 0.97


@pytest.mark.parametrize("orders", [False, True])
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (4, 64), (4, 256), (4, 0), (8, 0)])
def test_outputs_change_less_than_by_rounding_alone(bits, group, orders):
    weight, hessian = case(64, 512, 7, tokens=2000)
    scheme = RoundingScheme(bits, group, torch.bfloat16)
    plain = round_to_nearest(weight, scheme).dequantize()
    made = gptq(weight, hessian, scheme, orders_inputs=orders)
    assert torch.equal(made.scales, made.scales.bfloat16().float())
    error = output_error(made.dequantize() - weight, hessian)
    assert error < 0.6 * output_error(plain - weight, hessian)


@pytest.mark.parametrize("damping", [0.0, 0.01])
def test_inputs_that_calibration_never_saw_are_rounded_to_nearest(damping):
    weight, hessian = case(8, 64, 5)
    hessian[:, 10] = hessian[10] = 0
    scheme = RoundingScheme(4, 32, torch.float32)
    made = gptq(weight, hessian, scheme, damping=damping)
    step = made.scales.abs()[:, 0]
    found = made.dequantize()
    assert found.isfinite().all()
    assert ((found - weight)[:, 10].abs() <= 0.51 * step).float().mean() > 0.8


def test_inputs_that_repeat_each_other_have_a_root():
    hessian = torch.ones(16, 16)
    root = inverse_root(hessian, 0.0)
    assert root.isfinite().all()
    assert not root.tril(-1).any()


def test_a_hessian_of_zeros_has_a_root():
    assert inverse_root(torch.zeros(4, 4), 0.01).isfinite().all()
