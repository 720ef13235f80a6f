"""Codes of keys and values: what coding costs, and that nothing of it is lost on the way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.kv_codes import MOST_CODE, SCALE_DTYPE, decode_heads, encode_heads

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@quick
@given(
    rows=st.integers(1, 9),
    dim=st.sampled_from([1, 8, 64, 80, 128]),
    size=st.sampled_from([1e-20, 1e-3, 1.0, 300.0, 1e20]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 9),
)
def test_a_value_is_off_by_half_a_step_at_most(rows, dim, size, dtype, seed):
    source = torch.Generator().manual_seed(seed)
    x = (torch.randn(rows, 2, dim, generator=source) * size).to(dtype)
    codes, scales = encode_heads(x)
    assert (codes.dtype, scales.dtype, scales.shape) == (torch.int8, SCALE_DTYPE, x.shape[:-1])
    step = scales.float()[..., None]
    assert ((decode_heads(codes, scales) - x.float()).abs() <= 0.5001 * step).all()
    largest = x.float().abs().amax(-1, keepdim=True)
    assert (step * MOST_CODE >= largest * 0.999999).all(), (
        "a scale is rounded up: nothing is clipped"
    )
    assert (step * MOST_CODE <= largest * (1 + 2**-7)).all()


def test_zeros_stay_zeros():
    codes, scales = encode_heads(torch.zeros(3, 8))
    assert not codes.any()
    assert not scales.any()
    assert not decode_heads(codes, scales).any()


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_so_in_its_head_alone(odd):
    x = torch.ones(2, 8)
    x[1, 3] = odd
    decoded = decode_heads(*encode_heads(x))
    assert decoded[1].isnan().all()
    assert torch.equal(decoded[0], x[0] * decoded[0, 0])
    assert decoded[0, 0] == pytest.approx(1.0, rel=0.01)
