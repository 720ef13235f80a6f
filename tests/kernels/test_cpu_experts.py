"""The experts of a layer in one native call, against the same in plain torch."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantisation import quantised
from agentrt_kernels.contract import GELU_TANH, SILU, Activation
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.experts import ExpertMatrices, PackedExperts
from agentrt_kernels.reference import Reference

CLAMPED = Activation(1.7, 0.0, 1.0, 0.8)
DTYPES = [torch.float32, torch.bfloat16]
pytestmark = pytest.mark.usefixtures("native")
quick = settings(max_examples=50, deadline=None, derandomize=True, database=None)


def random_experts(count, hidden, inner, bits, biased, dtype, source):
    def matrix(rows, width):
        made = (torch.randn(rows, width, generator=source) / width**0.5).to(dtype)
        return quantised(made, bits, 32) if bits else made

    def bias(rows):
        return torch.randn(rows, generator=source).to(dtype) if biased else None

    return [
        ExpertMatrices(
            matrix(2 * inner, hidden), bias(2 * inner), matrix(hidden, inner), bias(hidden)
        )
        for _ in range(count)
    ]


def with_orders(expert, source):
    """An expert whose matrices take their inputs in orders of their own."""

    def ordered(weight):
        assert isinstance(weight, PackedWeight)
        order = torch.randperm(weight.shape[1], generator=source)
        return replace(weight, order=order.to(torch.int32))

    return replace(expert, gate_up=ordered(expert.gate_up), down=ordered(expert.down))


def plain(weight):
    return weight.dequantize() if isinstance(weight, PackedWeight) else weight.float()


def summed(experts, activation, x, chosen, shares):
    """What each token's experts make of it, one after the other, in fp32 but for the inner rows."""
    out = torch.zeros(x.shape)
    for row, (ids, parts) in enumerate(zip(chosen.tolist(), shares.tolist(), strict=True)):
        for expert, share in zip(ids, parts, strict=True):
            if expert == len(experts):
                continue
            one = experts[expert]
            both = x[row].float() @ plain(one.gate_up).t()
            both += 0 if one.gate_up_bias is None else one.gate_up_bias.float()
            inner = torch.empty(1, both.shape[0] // 2)
            Reference().gate_mul(both[None], inner, activation)
            made = inner[0].to(x.dtype).float() @ plain(one.down).t()
            out[row] += share * (made + (0 if one.down_bias is None else one.down_bias.float()))
    return out


@quick
@given(
    rows=st.sampled_from([1, 2, 5, 16, 33]),
    count=st.integers(1, 6),
    hidden=st.sampled_from([8, 40, 96]),
    inner=st.sampled_from([8, 34, 64]),
    bits=st.sampled_from([0, 4, 8]),
    biased=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    activation=st.sampled_from([SILU, GELU_TANH, CLAMPED]),
    dropped=st.booleans(),
    reordered=st.booleans(),
    data=st.data(),
)
def check_experts(
    library,
    rows,
    count,
    hidden,
    inner,
    bits,
    biased,
    dtype,
    activation,
    dropped,
    reordered,
    data,
):
    source = torch.Generator().manual_seed(rows)
    choices = data.draw(st.integers(1, count))
    experts = random_experts(count, hidden, inner, bits, biased, dtype, source)
    if reordered and bits:
        experts = [with_orders(one, source) for one in experts]
    packed = PackedExperts(library, experts, activation)
    x = torch.randn(rows, hidden + 3, generator=source).to(dtype)[:, :hidden]
    chosen = torch.rand(rows, count, generator=source).argsort(-1)[:, :choices].contiguous()
    shares = torch.rand(rows, choices, generator=source)
    if dropped:
        chosen[torch.rand(chosen.shape, generator=source) < 0.4] = count
    out = torch.full((rows, hidden + 2), 7.0, dtype=dtype)
    packed.apply(x, chosen, shares, out[:, :hidden])
    expected = summed(experts, activation, x, chosen, shares)
    apart = 1e-2 if dtype is torch.bfloat16 else 2e-3 if bits else 1e-5
    assert (out[:, :hidden].float() - expected).norm() <= apart * expected.norm() + 1e-6
    assert (out[:, hidden:] == 7).all()
    if bits:
        assert packed.quantised_bytes > 0


def test_each_row_gets_what_its_experts_make_of_it(kernels):
    check_experts(c.native())


def test_processors_without_dot_products_compute_the_same(level_library):
    check_experts(level_library)


def test_experts_compute_the_same_by_either_product(other_dot):
    check_experts(other_dot)


@pytest.mark.parametrize("bits", [0, 8])
def test_many_rows_of_one_expert_are_all_computed(bits, kernels):
    """More than a band of rows that pass a panel together."""
    source = torch.Generator().manual_seed(1)
    experts = random_experts(2, 16, 8, bits, True, torch.float32, source)
    x = torch.randn(450, 16, generator=source)
    chosen = torch.zeros(450, 1, dtype=torch.int64)
    chosen[7] = 1
    shares, out = torch.ones(450, 1), torch.empty(450, 16)
    kernels.pack_experts(experts).apply(x, chosen, shares, out)
    expected = summed(experts, SILU, x, chosen, shares)
    assert (out - expected).norm() <= 1e-3 * expected.norm()


def test_a_row_does_not_depend_on_the_rows_beside_it(kernels):
    source = torch.Generator().manual_seed(2)
    packed = kernels.pack_experts(random_experts(4, 64, 32, 8, False, torch.float32, source))
    x = torch.randn(19, 64, generator=source)
    chosen = torch.rand(19, 4, generator=source).argsort(-1)[:, :2].contiguous()
    shares = torch.rand(19, 2, generator=source)
    whole, alone = torch.empty(19, 64), torch.empty(19, 64)
    packed.apply(x, chosen, shares, whole)
    for at in range(19):
        one = slice(at, at + 1)
        packed.apply(x[one], chosen[one], shares[one], alone[one])
    assert torch.equal(whole, alone)


def test_rows_without_an_expert_are_zero(kernels):
    source = torch.Generator().manual_seed(3)
    packed = kernels.pack_experts(random_experts(3, 8, 8, 0, True, torch.float32, source))
    out = torch.full((2, 8), torch.nan)
    packed.apply(torch.randn(2, 8), torch.full((2, 2), 3), torch.zeros(2, 2), out)
    assert not out.any()


@pytest.mark.parametrize("bits", [8, 4])
def test_codes_take_their_bits_and_no_more(bits, kernels):
    source = torch.Generator().manual_seed(4)
    experts = random_experts(3, 64, 128, bits, False, torch.bfloat16, source)
    values = 3 * (256 * 64 + 64 * 128)
    groups = values // 32
    factors = 3 * (256 + 64)
    found = kernels.pack_experts(experts).quantised_bytes
    assert found == values * bits // 8 + groups * 2 + factors * 4
