"""Products with quantised weights by the Triton set, against the matrices that they stand for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.check.product import product_difference
from agentrt_kernels.check.stored import KINDS, stored
from agentrt_kernels.quantised_weight import (
    E2M1,
    E4M3,
    dequantised,
    e4m3_rows,
    quantised_linear,
)
from agentrt_kernels.reference import Reference

CPU = torch.device("cpu")
quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
wide = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_codes(interpreted, kind: str, dtype: torch.dtype) -> None:
    for rows, outputs, inputs in ((1, 20, 64), (17, 18, 160)):
        found = product_difference(interpreted, kind, rows, outputs, inputs, dtype, CPU)
        assert found <= 1


@quick
@given(
    kind=st.sampled_from(list(KINDS)),
    rows=st.integers(1, 40),
    outputs=st.integers(1, 40),
    pairs=st.integers(1, 60),
    odd=st.booleans(),
    dtype=wide,
)
def check_shapes(interpreted, kind, rows, outputs, pairs, odd, dtype):
    inputs = 2 * pairs + (odd and stored(kind, 1, 2, CPU).bits == 8)
    assert product_difference(interpreted, kind, rows, outputs, inputs, dtype, CPU) <= 1


def test_odd_shapes(interpreted) -> None:
    check_shapes(interpreted)


@quick
@given(
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([2, 8, 12, 24, 40, 48, 96, 128, 10_000]),
    pairs=st.integers(1, 70),
    has_zeros=st.booleans(),
)
def check_groups(interpreted, bits, group, pairs, has_zeros):
    source = torch.Generator().manual_seed(pairs)
    one = stored("int8" if bits == 8 else "int4 in groups", 9, 2 * pairs, CPU, seed=pairs)
    groups = (9, -(-2 * pairs // group))
    scales = torch.rand(groups, generator=source).half() - 0.5
    zeros = torch.randint(-4, 4, groups, generator=source).half() if has_zeros else None
    weight = replace(one, scales=scales, zeros=zeros, group=group)
    x = torch.randn(3, 2 * pairs + 5, generator=source)[:, : 2 * pairs]
    expected = quantised_linear(x, weight)
    found = interpreted.pack_codes(weight).apply(x)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-4)


def test_groups_of_any_size(interpreted) -> None:
    check_groups(interpreted)


@quick
@given(
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([16, 32, 48, 128, 10_000]),
    words=st.integers(1, 40),
    outputs=st.integers(1, 40),
    zeros=st.sampled_from(["none", "whole", "halves"]),
    exponent=st.integers(-30, 60),
)
def check_rows_alone(interpreted, bits, group, words, outputs, zeros, exponent):
    from agentrt_kernels.triton import dequantised_gemv
    from agentrt_kernels.triton.quantised import codes_of

    source, inputs = torch.Generator().manual_seed(words), words * 32 // bits
    one = stored("int8" if bits == 8 else "int4 in groups", outputs, inputs, CPU, seed=words)
    groups = (outputs, -(-inputs // group))
    scales = torch.rand(groups, generator=source).half() - 0.5
    shift = torch.randint(-8, 24, groups, generator=source).half()
    held = {"none": None, "whole": shift, "halves": shift + 0.5}[zeros]
    weight = replace(one, scales=scales, zeros=held, group=group)
    codes = codes_of(weight)
    assert not dequantised_gemv.fits(codes, 2)
    is_whole = words % 4 == 0 and (group >= inputs or group % 16 == 0)
    assert dequantised_gemv.fits(codes, 1) == is_whole
    x = torch.randn(1, inputs, generator=source)
    expected = quantised_linear(x, weight)
    found = interpreted.pack_codes(weight).apply(x * 2.0**exponent)
    torch.testing.assert_close(found * 2.0**-exponent, expected, rtol=2e-5, atol=2e-3)


def test_a_row_alone_times_integer_codes(interpreted) -> None:
    """Of any group and size, and from rows that are tiny to rows that are huge."""
    check_rows_alone(interpreted)


@pytest.mark.parametrize("bits", [4, 8])
def test_every_integer_code_is_its_value_wherever_it_lies_in_a_word(interpreted, bits) -> None:
    """A row for each code, other codes beside it; one input at a time is taken."""
    count, inputs = 1 << bits, 32
    codes = (torch.arange(count)[:, None] + torch.arange(inputs)) % count
    values = codes.to(torch.uint8).view(torch.int8)
    if bits == 4:
        values = (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)
    one = stored("int8" if bits == 8 else "int4 in groups", count, inputs, CPU)
    weight = replace(one, values=values, scales=torch.ones(count, 1), group=inputs)
    linear = interpreted.pack_codes(weight)
    meant = codes.float() - 8 if bits == 4 else values.float()
    for at in range(inputs):
        x = torch.zeros(1, inputs)
        x[0, at] = 0.75
        assert torch.equal(linear.apply(x)[0], 0.75 * meant[:, at]), at


def test_one_row_of_integer_codes_takes_its_own_kernel(interpreted) -> None:
    from agentrt_kernels.triton.blocks import Blocks, Case, Table
    from agentrt_kernels.triton.set import TritonKernels

    class Watching(Table):
        def find(self, case: Case) -> Blocks:
            asked.append(case.kernel)
            return Blocks(rows=16, columns=16, inner=16, warps=4, stages=2)

    kernels = TritonKernels(Watching())
    for kind, rows, kernel in (
        ("int4 in groups with zeros", 1, "dequantised_gemv"),
        ("int8", 1, "dequantised_gemv"),
        ("int8", 2, "dequantised_gemm"),
        ("nf4", 1, "dequantised_gemm"),
        ("fp8", 1, "dequantised_gemm"),
    ):
        asked: list[str] = []
        kernels.pack_codes(stored(kind, 9, 128, CPU)).apply(torch.ones(rows, 128))
        assert asked == [kernel], kind


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kind", ["int4 in groups with zeros", "fp8 in blocks by fp8"])
@pytest.mark.usefixtures("interpreted")
def test_inputs_may_be_shared_among_programs(kind: str, rows: int) -> None:
    """As on a device with more room than a product has outputs; a bias is added once."""
    from agentrt_kernels.triton.blocks import Table
    from agentrt_kernels.triton.set import TritonKernels

    weight = stored(kind, 20, 832, CPU)
    source = torch.Generator().manual_seed(0)
    x, bias = torch.randn(rows, 832, generator=source), torch.randn(20, generator=source)
    out = torch.full((rows, 30), torch.nan)
    linear = TritonKernels(Table(), programs=64).pack_codes(weight, bias)
    made = linear.apply(x, out[:, :20])
    torch.testing.assert_close(made, quantised_linear(x, weight, bias), rtol=2e-4, atol=2e-4)
    assert made.data_ptr() == out.data_ptr()
    assert out[:, 20:].isnan().all()


def test_shares_are_whole_and_none_is_empty() -> None:
    pytest.importorskip("triton", reason="triton is not installed (pip install agentrt[gpu])")
    from agentrt_kernels.triton.blocks import Blocks
    from agentrt_kernels.triton.split_inner import Shares
    from agentrt_kernels.triton.workspace import Workspace

    blocks, counts = Blocks(16, 64, 64, 4, 4), set()
    for span in (1, 64, 500, 2048, 4096, 7168, 14336):
        for room in (1, 64, 528):
            made = Shares.of(1, 4096, span, blocks, room, Workspace(CPU))
            each = made.codes_of_one(span, 64)
            assert each % 64 == 0
            assert (made.count - 1) * each < span <= made.count * each
            counts.add(made.count)
    assert max(counts) > 4


def test_codes_take_their_bits_and_no_more(interpreted) -> None:
    eight = interpreted.pack_codes(stored("int8", 128, 256, CPU))
    assert eight.resident_bytes == 128 * 256 + 128 * 4
    four = interpreted.pack_codes(stored("int4 in groups", 128, 256, CPU))
    assert four.resident_bytes == 128 * 256 // 2 + 128 * (8 * 2 + 4)


def test_every_code_of_fp8_is_its_value(interpreted) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    codes = codes[codes & 127 != 127].view(torch.int8)[:, None]
    weight = replace(stored("fp8", len(codes), 1, CPU), values=codes)
    weight.scales.fill_(1.0)
    found = interpreted.pack_codes(weight).apply(torch.ones(1, 1))
    assert torch.equal(found, dequantised(weight).t())
    assert found.unique().numel() == 253


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("exponent", [-20, 0, 20])
def test_every_code_of_mxfp4_is_its_value(interpreted, groups: int, exponent: int) -> None:
    """A row for each code, of inputs that are alike; a second group is far smaller."""
    codes = torch.arange(16, dtype=torch.uint8)[:, None] * 17
    values = codes.expand(16, 32 * groups // 2).contiguous()
    scales = 2.0 ** (exponent - 20.0 * torch.arange(groups)).expand(16, groups)
    weight = replace(stored("mxfp4", 16, 32 * groups, CPU), values=values, scales=scales)
    for at in range(groups):
        x = torch.zeros(1, 32 * groups)
        x[0, 32 * at] = 1
        found = interpreted.pack_codes(weight).apply(x)
        assert torch.equal(found[0], E2M1 * 2.0 ** (exponent - 20 * at))


@quick
@given(
    exponent=st.integers(-12, 12),
    width=st.sampled_from([1, 7, 64, 200, 5000]),
    dtype=wide,
)
def check_rows(exponent, width, dtype):
    from agentrt_kernels.triton.e4m3_rows import e4m3_rows as by_triton

    source = torch.Generator().manual_seed(width)
    x = (torch.randn(3, width + 2, generator=source) * 2.0**exponent).to(dtype)[:, :width]
    x[1] = 0
    codes, scales = torch.empty(3, width, dtype=torch.float8_e4m3fn), torch.empty(3)
    by_triton(x, codes, scales)
    expected, expected_scales = e4m3_rows(x)
    assert torch.equal(scales, expected_scales)
    assert torch.equal(codes.float(), expected.float())
    if width > 1 and x.float().abs().max() < 1e4:
        error = (codes.float() * scales[:, None] - x.float()).abs()
        assert (error <= x.float().abs() / 16 + scales[:, None] / 512).all()


@pytest.mark.usefixtures("interpreted")
def test_rows_are_rounded_to_the_nearest_codes() -> None:
    check_rows()


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # numpy's
@pytest.mark.parametrize("kind", ["int4 in groups", "fp8", "fp8 by fp8"])
@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_a_row_that_is_no_number_gives_none(interpreted, kind: str, fault: float) -> None:
    x = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
    x[0, 5] = fault
    found = interpreted.pack_codes(stored(kind, 9, 64, CPU)).apply(x)
    assert not found[0].isfinite().any()
    assert found[1].isfinite().all()


def test_nothing_times_codes_is_nothing(interpreted) -> None:
    found = interpreted.pack_codes(stored("int4 in groups", 9, 64, CPU)).apply(torch.empty(0, 64))
    assert found.shape == (0, 9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table": torch.zeros(256)}, "a table other than that of FP8"),
        ({"row_bits": 8}, "but for FP8 in groups of 32"),
        ({"row_bits": 8, "table": E4M3, "group": 40}, "but for FP8 in groups of 32"),
    ],
)
def test_forms_that_nothing_multiplies_are_refused(interpreted, change, said: str) -> None:
    weight = replace(stored("int8", 4, 80, CPU), **change)
    if "group" in change:
        weight = replace(weight, scales=torch.ones(4, 2))
    with pytest.raises(ValueError, match=said):
        interpreted.pack_codes(weight)


def test_a_wrong_product_is_found() -> None:
    class Doubling(Reference):
        def pack_codes(self, weight, bias=None):
            return super().pack_codes(replace(weight, scales=2 * weight.scales), bias)

    for kind in KINDS:
        right = product_difference(Reference(), kind, 3, 8, 64, torch.float32, CPU)
        wrong = product_difference(Doubling(), kind, 3, 8, 64, torch.float32, CPU)
        assert right <= 1 < wrong
