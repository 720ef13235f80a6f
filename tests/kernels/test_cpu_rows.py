"""Row operations and linears of the native set against the reference."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from agentrt_kernels.contract import GELU_TANH, SILU, Activation, HeadNorms
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.kv_codes import CODE_DTYPES, SCALE_DTYPE
from agentrt_kernels.reference import Reference

LOOSE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
CLAMPED = Activation(1.7, 0.0, 1.0, 0.8)
DTYPES = [torch.float32, torch.bfloat16]
quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def near(found, expected):
    torch.testing.assert_close(
        found, expected, atol=LOOSE[expected.dtype], rtol=LOOSE[expected.dtype]
    )


def rows_of(rows, width, dtype, source):
    """Rows with something between them."""
    return torch.randn(rows, width + 5, generator=source).to(dtype)[:, :width]


@quick
@given(
    rows=st.integers(1, 9),
    width=st.sampled_from([1, 8, 32, 40, 384, 1024, 9000]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 9),
    wide=st.booleans(),
    centered=st.booleans(),
    activation=st.sampled_from([SILU, GELU_TANH, CLAMPED]),
)
def check_rows(kernels, rows, width, dtype, seed, wide, centered, activation):
    source = torch.Generator().manual_seed(seed)
    x, delta = (rows_of(rows, width, dtype, source) for _ in range(2))
    weight = torch.randn(width, generator=source).to(torch.float32 if wide else dtype)
    for given_delta in (None, delta):
        results = []
        for one in (Reference(), kernels):
            residual, out = x.clone(), torch.empty(rows, width, dtype=dtype)
            if given_delta is None:
                one.rms_norm(residual, weight, 1e-5, out, centered=centered)
            else:
                one.add_rms_norm(given_delta, residual, weight, 1e-5, out, centered=centered)
            results.append((residual, out))
        near(results[1][0], results[0][0])
        near(results[1][1], results[0][1])
    both = rows_of(rows, 2 * width, dtype, source)
    outs = [torch.empty(rows, width, dtype=dtype) for _ in range(2)]
    for one, out in zip((Reference(), kernels), outs, strict=True):
        one.gate_mul(both, out, activation)
    near(outs[1], outs[0])


def test_rows_are_normed_and_gated_as_the_reference_says(kernels):
    check_rows(kernels)


def test_the_norm_may_take_the_place_of_what_was_added(kernels):
    x, weight = torch.randn(3, 64), torch.randn(64)
    delta = torch.randn(3, 64)
    residual, out = x.clone(), torch.empty(3, 64)
    Reference().add_rms_norm(delta, residual, weight, 1e-6, out)
    kernels.add_rms_norm(delta, x, weight, 1e-6, delta)
    near(delta, out)
    near(x, residual)


@quick
@given(
    rows=st.integers(1, 7),
    page=st.sampled_from([1, 4, 16]),
    heads=st.sampled_from([(1, 1), (6, 2)]),
    dim=st.sampled_from([8, 16, 64, 80]),
    normed=st.sampled_from(["", "as the heads", "wide"]),
    own=st.booleans(),
    centered=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def check_rope(kernels, rows, page, heads, dim, normed, own, centered, dtype):
    source = torch.Generator().manual_seed(rows)
    count, pairs = heads
    qkv = torch.randn(rows, count + 2 * pairs, dim, generator=source).to(dtype)
    angles = torch.randn(50, dim, generator=source)
    positions = torch.randint(0, 50, (rows,), generator=source)
    slots = torch.randperm(8 * page, generator=source)[:rows]
    slots[0] = -1
    kind = torch.float32 if normed == "wide" else dtype
    shapes = [(number, dim) if own else (dim,) for number in heads]
    weights = [torch.randn(shape, generator=source).to(kind) for shape in shapes]
    norms = HeadNorms(weights[0], weights[1], 1e-5, centered) if normed else None
    results = []
    for one in (Reference(), kernels):
        memory = torch.zeros(8, 2, 2, page, pairs, dim, dtype=dtype)
        query = torch.empty(rows, count, dim, dtype=dtype)
        one.rope_store(qkv, positions, angles, slots, norms, memory[:, 1], query)
        results.append((memory, query))
    near(results[1][0], results[0][0])
    near(results[1][1], results[0][1])


def test_heads_are_turned_and_stored(kernels):
    check_rope(kernels)


@quick
@given(
    rows=st.integers(1, 7),
    page=st.sampled_from([1, 4, 16]),
    heads=st.sampled_from([(1, 1), (6, 2)]),
    dim=st.sampled_from([8, 16, 64, 80]),
    normed=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    kind=st.sampled_from(list(CODE_DTYPES.values())),
)
def check_rope_into_codes(kernels, rows, page, heads, dim, normed, dtype, kind):
    source = torch.Generator().manual_seed(rows)
    count, pairs = heads
    qkv = torch.randn(rows, count + 2 * pairs, dim, generator=source).to(dtype)
    qkv[-1, -1] = 0
    angles = torch.randn(50, dim, generator=source)
    positions = torch.randint(0, 50, (rows,), generator=source)
    slots = torch.randperm(8 * page, generator=source)[:rows]
    slots[0] = -1
    weights = [torch.randn(dim, generator=source).to(dtype) for _ in range(2)]
    norms = HeadNorms(weights[0], weights[1], 1e-5) if normed else None
    results = []
    for one in (Reference(), kernels):
        codes = torch.zeros(8, 2, 2, page, pairs, dim, dtype=kind)
        scales = torch.zeros(8, 2, 2, pairs, page, dtype=SCALE_DTYPE)
        query = torch.empty(rows, count, dim, dtype=dtype)
        stored = codes[:, 1], scales[:, 1]
        one.rope_store(qkv, positions, angles, slots, norms, stored[0], query, stored[1])
        results.append((codes, scales, query))
    (wanted, wanted_scales, wanted_query), (codes, scales, query) = results
    near(query, wanted_query)
    torch.testing.assert_close(scales, wanted_scales, rtol=2**-7, atol=0)
    apart = (codes.view(torch.int8).int() - wanted.view(torch.int8).int()).abs()
    assert apart.max() <= 1, "a value between two codes may become either"
    assert apart.count_nonzero() <= 0.02 * codes.numel()


def test_heads_are_stored_as_codes(kernels):
    check_rope_into_codes(kernels)


def test_lesser_processors_store_the_same_codes(level_library):
    check_rope_into_codes(CpuKernels(1, level_library))


@quick
@given(
    rows=st.sampled_from([1, 2, 7, 12, 13, 16, 29, 200]),
    inputs=st.sampled_from([2, 24, 384]),
    outputs=st.sampled_from([1, 31, 32, 100, 700]),
    bias=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def check_linear(kernels, rows, inputs, outputs, bias, dtype):
    source = torch.Generator().manual_seed(rows)
    x = rows_of(rows, inputs, dtype, source)
    weight = torch.randn(outputs, inputs, generator=source).to(dtype) / 8
    added = torch.randn(outputs, generator=source).to(dtype) if bias else None
    expected = functional.linear(
        x.float(), weight.float(), None if added is None else added.float()
    )
    packed = kernels.pack(weight, added)
    torch.testing.assert_close(
        packed.apply(x), expected.to(dtype), atol=5 * LOOSE[dtype], rtol=5 * LOOSE[dtype]
    )
    wide = packed.apply(x, torch.empty(rows, outputs))
    torch.testing.assert_close(wide, expected, atol=1e-3, rtol=1e-3)


def test_a_packed_linear_is_a_linear(kernels):
    check_linear(kernels)


def test_a_packed_linear_is_one_by_either_product(other_dot):
    check_linear(CpuKernels(1, other_dot))


def test_rows_are_the_same_on_other_processors(level_library):
    kernels = CpuKernels(1, level_library)
    check_rows(kernels)
    check_rope(kernels)
    check_rope_into_codes(kernels)
    check_linear(kernels)


def test_a_weight_that_cannot_be_packed_is_refused(kernels):
    with pytest.raises(ValueError, match="float16 with 4 inputs"):
        kernels.pack(torch.zeros(4, 4, dtype=torch.float16))
    with pytest.raises(ValueError, match="bfloat16 with 5 inputs"):
        kernels.pack(torch.zeros(4, 5, dtype=torch.bfloat16))


def test_a_gate_that_is_no_number_stays_none(kernels):
    both = torch.tensor([[torch.nan, 1.0, 2.0, 1.0, torch.nan, torch.inf]])
    for one in (Reference(), kernels):
        out = torch.empty(1, 3)
        one.gate_mul(both, out, CLAMPED)
        assert out[0, :2].isnan().all()
        assert out[0, 2] == pytest.approx(1.8 * 0.8 / (1 + math.exp(-1.7 * 0.8)))


def test_types_that_are_not_computed_are_refused(kernels):
    half = torch.zeros(2, 8, dtype=torch.float16)
    with pytest.raises(TypeError, match=r"fp32 and bf16, not torch\.float16"):
        kernels.rms_norm(half, half[0], 1e-5, half)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [0, 3, 90])
def test_experts_take_their_rows(kernels, dtype, rows):
    source = torch.Generator().manual_seed(rows)
    counts = torch.tensor([0, rows // 3, 0, rows - rows // 3])
    starts = torch.tensor([0, *counts.cumsum(0).tolist()], dtype=torch.int32)
    x = rows_of(rows, 40, dtype, source)
    weight = torch.randn(4, 30, 40, generator=source).to(dtype) / 6
    outs = [torch.zeros(rows, 30, dtype=dtype) for _ in range(2)]
    for one, out in zip((Reference(), kernels), outs, strict=True):
        one.grouped_linear(x, weight, starts, out)
    torch.testing.assert_close(outs[1], outs[0], atol=LOOSE[dtype], rtol=LOOSE[dtype])


def test_pages_are_copied_whole(kernels):
    source, target = torch.randn(6, 90), torch.zeros(9, 90)
    kernels.copy_pages(source, target, torch.tensor([[5, 0], [2, 8]]))
    assert torch.equal(target[0], source[5])
    assert torch.equal(target[8], source[2])
    assert target[1:8].count_nonzero() == 0
