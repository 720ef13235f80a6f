"""Codes of keys and values: what coding costs, and that nothing of it is lost on the way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.kv_codes import (
    CODE_DTYPES,
    MOST_CODES,
    SCALE_DTYPE,
    decode_heads,
    encode_heads,
)

E4M3 = torch.float8_e4m3fn
quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)
heads = {
    "rows": st.integers(1, 9),
    "dim": st.sampled_from([1, 8, 64, 80, 128]),
    "size": st.sampled_from([1e-20, 1e-3, 1.0, 300.0, 1e20]),
    "dtype": st.sampled_from([torch.float32, torch.bfloat16]),
    "seed": st.integers(0, 9),
}
both = pytest.mark.parametrize("kind", CODE_DTYPES.values())


def drawn(rows, dim, size, dtype, seed):
    source = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, 2, dim, generator=source) * size).to(dtype)


@quick
@given(**heads)
def test_an_integer_is_off_by_half_a_step_at_most(rows, dim, size, dtype, seed):
    x = drawn(rows, dim, size, dtype, seed)
    codes, scales = encode_heads(x, torch.int8)
    assert (codes.dtype, scales.dtype, scales.shape) == (torch.int8, SCALE_DTYPE, x.shape[:-1])
    step = scales.float()[..., None]
    assert ((decode_heads(codes, scales) - x.float()).abs() <= 0.5001 * step).all()
    largest = x.float().abs().amax(-1, keepdim=True)
    most = MOST_CODES[torch.int8]
    assert (step * most >= largest * 0.999999).all(), "a scale is rounded up: nothing is clipped"
    assert (step * most <= largest * (1 + 2**-7)).all()


@quick
@given(**heads)
def test_a_float_is_off_by_a_sixteenth_of_itself_at_most(rows, dim, size, dtype, seed):
    """And by what bf16 rounds off the scale; but the smallest values, by a part of the largest."""
    x = drawn(rows, dim, size, dtype, seed)
    codes, scales = encode_heads(x, E4M3)
    assert (codes.dtype, scales.dtype, scales.shape) == (E4M3, SCALE_DTYPE, x.shape[:-1])
    wide = x.float()
    largest = wide.abs().amax(-1, keepdim=True)
    assert (codes.float().abs().amax(-1) == MOST_CODES[E4M3]).all(), "the whole range is used"
    turned = wide / (largest / MOST_CODES[E4M3])
    off = (codes.float() - turned).abs()
    assert (off <= torch.maximum(turned.abs() / 16, torch.tensor(2**-10)) * 1.0001).all()
    fault = (decode_heads(codes, scales) - wide).norm(dim=-1)
    plain = (codes.float() * (largest / MOST_CODES[E4M3]) - wide).norm(dim=-1)
    assert (fault <= plain + 2**-8 * wide.norm(dim=-1)).all(), "the scale fits the codes"


def test_the_scale_of_floats_fits_them():
    """Values that all lie above their codes are met by a larger scale."""
    x = torch.tensor([[448.0, *[215.0] * 7]])  # 215 becomes 208
    codes, scales = encode_heads(x, E4M3)
    assert codes[0, 1].float() == 208
    fitted = float((x * codes.float()).sum() / codes.float().square().sum())
    assert float(scales) == pytest.approx(fitted, rel=2**-8)
    assert fitted > 1.01


@both
def test_zeros_stay_zeros(kind):
    codes, scales = encode_heads(torch.zeros(3, 8), kind)
    assert not codes.float().any()
    assert not scales.any()
    assert not decode_heads(codes, scales).any()


@both
@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_so_in_its_head_alone(odd, kind):
    x = torch.ones(2, 8)
    x[1, 3] = odd
    decoded = decode_heads(*encode_heads(x, kind))
    assert decoded[1].isnan().all()
    assert torch.equal(decoded[0], x[0] * decoded[0, 0])
    assert decoded[0, 0] == pytest.approx(1.0, rel=0.01)
