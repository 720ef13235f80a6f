"""Groups of weights are rounded natively as in torch, and with the scale of the smallest error."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.rounding import (
    GroupRounding,
    round_groups_native,
    round_groups_reference,
)

pytestmark = pytest.mark.usefixtures("native")
quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)
ENDS = (8.0, 7.0, 7.5, 8.5, 9.0)


def values_of(codes, scales, bits, group, inputs):
    if bits == 4:
        codes = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(1).float() - 8
    return codes.float() * scales.repeat_interleave(group, 1)[:, :inputs]


@quick
@given(
    rows=st.integers(1, 70),
    inputs=st.integers(1, 150),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([8, 24, 32, 128, 10_000]),
    whole=st.booleans(),
    weighed=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    size=st.sampled_from([1e-6, 0.02, 30.0]),
    seed=st.integers(0, 20),
)
def check_rounding(library, rows, inputs, bits, group, whole, weighed, dtype, size, seed):
    inputs = group * (1 + inputs % 4) if whole and group <= 128 else inputs * 8 // bits
    source = torch.Generator().manual_seed(seed)
    weight = torch.randn(rows, inputs, generator=source) * size
    weight[0] = 0
    weight = weight.to(dtype)
    importance = torch.rand(inputs, generator=source) * 5 if weighed else None
    how = GroupRounding(bits, group, ENDS, importance)
    codes, scales = round_groups_native(library, weight, how)
    expected, wanted = round_groups_reference(weight, how)
    assert codes.dtype is expected.dtype
    assert codes.shape == expected.shape
    same = torch.isclose(scales, wanted, rtol=1e-5, atol=0)
    if bits == 8:
        assert torch.equal(codes, expected)
        assert torch.equal(scales, wanted)
    assert same.float().mean() > 0.99 or same.numel() - same.sum() <= 1
    each = torch.ones(inputs) if importance is None else importance
    errors = [
        ((values_of(*made, bits, group, inputs) - weight.float()).square() * each).sum(1)
        for made in ((codes, scales), (expected, wanted))
    ]
    torch.testing.assert_close(*errors, rtol=1e-3, atol=1e-3 * size * size)
    assert not scales[0].any()
    _, alone = round_groups_native(
        library, weight, GroupRounding(bits, group, ENDS, importance, codes=False)
    )
    assert torch.equal(alone, scales)


def test_native_rounding_is_that_of_torch():
    check_rounding(c.native())


def test_other_processors_round_the_same(level_library):
    check_rounding(level_library)


def test_threads_round_all_rows():
    weight = torch.randn(3000, 96, generator=torch.Generator().manual_seed(2))
    how = GroupRounding(4, 32, ENDS)
    library = c.native()
    library.threads(2, 0)
    two = round_groups_native(library, weight, how)
    library.threads(1, 0)
    one = round_groups_native(library, weight, how)
    assert all(torch.equal(*pair) for pair in zip(one, two, strict=True))


def test_more_ends_never_err_more():
    weight = torch.randn(64, 128, generator=torch.Generator().manual_seed(3))
    found = []
    for ends in (ENDS[:1], ENDS[:3], ENDS, (*ENDS, 6.0, 6.5)):
        codes, scales = round_groups_native(c.native(), weight, GroupRounding(4, 32, ends))
        found.append(float((values_of(codes, scales, 4, 32, 128) - weight).norm()))
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.97 * found[0]
