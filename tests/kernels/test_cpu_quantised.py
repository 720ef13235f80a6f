"""Products with weights that stay quantised, against the matrix they stand for."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.quantised import pack_codes
from agentrt_kernels.quantised_weight import E4M3

pytestmark = pytest.mark.usefixtures("native")
quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def random_weight(bits, outputs, inputs, group, zeros, source, scale_type=torch.float32):
    groups = (outputs, -(-inputs // group))
    if bits == 8:
        values = torch.randint(-128, 128, (outputs, inputs), generator=source).to(torch.int8)
    else:
        values = torch.randint(0, 256, (outputs, inputs // 2), generator=source).to(torch.uint8)
    middle = 0 if bits == 8 else 8
    return PackedWeight(
        bits,
        values,
        (torch.randn(groups, generator=source) / 50).to(scale_type),
        torch.randn(groups, generator=source) * 3 + middle if zeros else None,
        group,
    )


@quick
@given(
    rows=st.sampled_from([1, 2, 3, 5, 6, 7, 13, 16, 40, 200]),
    inputs=st.sampled_from([2, 8, 24, 34, 250, 384]),
    odd=st.booleans(),
    outputs=st.sampled_from([1, 31, 32, 100, 300]),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([8, 24, 32, 128, 10_000]),
    zeros=st.booleans(),
    bias=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    scale_type=st.sampled_from([torch.float32, torch.float16]),
)
def check_quantised(
    library, rows, inputs, odd, outputs, bits, group, zeros, bias, dtype, scale_type
):
    source = torch.Generator().manual_seed(rows)
    inputs += odd and bits == 8
    weight = random_weight(bits, outputs, inputs, group, zeros, source, scale_type)
    x = torch.randn(rows, inputs + 3, generator=source).to(dtype)[:, :inputs]
    added = torch.randn(outputs, generator=source).to(dtype) if bias else None
    expected = x.float() @ weight.dequantize().t() + (0 if added is None else added.float())
    linear = pack_codes(library, weight, added)
    wide = linear.apply(x, torch.empty(rows, outputs))
    assert (wide - expected).norm() <= 1e-3 * expected.norm()
    torch.testing.assert_close(linear.apply(x), wide.to(dtype))


@pytest.mark.parametrize("row_bits", [8, 16])
@pytest.mark.parametrize("bits", [4, 8])
def test_inputs_are_taken_in_the_order_of_the_weight(bits, row_bits):
    """A product is that of the row's own inputs in this order, bit for bit."""
    source = torch.Generator().manual_seed(8)
    weight = random_weight(bits, 70, 192, 32, True, source)
    order = torch.randperm(192, generator=source)
    ordered = replace(weight, order=order.to(torch.int32), row_bits=row_bits)
    kernels = CpuKernels(2)
    for dtype in (torch.float32, torch.bfloat16):
        for rows in (1, 9):
            x = torch.randn(rows, 192, generator=source).to(dtype)
            expected = kernels.pack_codes(replace(weight, row_bits=row_bits)).apply(x[:, order])
            assert torch.equal(kernels.pack_codes(ordered).apply(x), expected)
    error = x.float() @ ordered.dequantize().t() - expected.float()
    assert error.norm() <= 2e-2 * expected.float().norm()


def rounded_rows(x, group):
    """Rows `[T, K]` in steps of a 127th of the largest value of each block of their inputs."""
    parts = []
    for of_group in x.float().split(group, dim=1):
        for block in of_group.split(128, dim=1):
            scale = block.abs().amax(1, keepdim=True) / 127
            parts.append((block * (1 / scale)).round() * scale)
    return torch.cat(parts, dim=1)


@quick
@given(
    rows=st.sampled_from([1, 2, 3, 5, 6, 7, 13, 40, 200]),
    inputs=st.sampled_from([2, 8, 24, 34, 250, 384]),
    outputs=st.sampled_from([1, 31, 32, 100]),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([8, 24, 32, 128, 200, 10_000]),
    zeros=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def check_rows_of_bytes(rows, inputs, outputs, bits, group, zeros, dtype):
    source = torch.Generator().manual_seed(rows)
    weight = replace(random_weight(bits, outputs, inputs, group, zeros, source), row_bits=8)
    x = torch.randn(rows, inputs + 3, generator=source).to(dtype)[:, :inputs]
    found = CpuKernels(2).pack_codes(weight).apply(x, torch.empty(rows, outputs))
    rounded, matrix = rounded_rows(x, group), weight.dequantize().t()
    largest = (rounded.abs() @ matrix.abs()).norm()
    assert (found - rounded @ matrix).norm() <= 1e-3 * largest


def table_weight(bits, outputs, inputs, group, source):
    """Codes of a table of sixteen values, or of eight bits with an exponent."""
    made = random_weight(bits, outputs, inputs, group, False, source)
    if bits == 4:
        return replace(made, table=torch.randn(16, generator=source))
    values = made.values.masked_fill(made.values & 127 == 127, 5)  # those are no numbers
    return replace(made, values=values, table=E4M3)


@quick
@given(
    rows=st.sampled_from([1, 2, 3, 5, 6, 7, 13, 40]),
    inputs=st.sampled_from([2, 8, 24, 34, 250, 384]),
    outputs=st.sampled_from([1, 31, 32, 100]),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([8, 64, 128, 10_000]),
    bias=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def check_tables(library, rows, inputs, outputs, bits, group, bias, dtype):
    source = torch.Generator().manual_seed(rows)
    weight = table_weight(bits, outputs, inputs, group, source)
    x = torch.randn(rows, inputs + 3, generator=source).to(dtype)[:, :inputs]
    added = torch.randn(outputs, generator=source).to(dtype) if bias else None
    expected = x.float() @ weight.dequantize().t() + (0 if added is None else added.float())
    linear = pack_codes(library, weight, added)
    wide = linear.apply(x, torch.empty(rows, outputs))
    assert (wide - expected).norm() <= 1e-3 * expected.norm()
    torch.testing.assert_close(linear.apply(x), wide.to(dtype))


def test_a_quantised_linear_is_that_of_its_matrix():
    check_quantised(c.native())


def test_processors_without_byte_products_compute_the_same(level_library):
    check_quantised(level_library)
    check_tables(level_library)


def test_codes_of_a_table_are_those_of_its_matrix():
    check_tables(c.native())


def test_every_code_of_eight_bits_with_an_exponent_is_exact():
    """The smallest ones too, which have no leading one."""
    codes = torch.arange(256).to(torch.uint8).view(torch.int8)[:, None]
    codes = codes[codes[:, 0] & 127 != 127]
    weight = PackedWeight(8, codes, torch.ones(len(codes), 1), None, 1, table=E4M3)
    found = CpuKernels(1).pack_codes(weight).apply(torch.ones(1, 1))
    assert torch.equal(found, weight.dequantize().t())
    assert found.unique().numel() == 253


def test_a_table_that_nothing_computes_by_is_refused():
    values = torch.zeros(1, 8, dtype=torch.int8)
    weight = PackedWeight(8, values, torch.ones(1, 1), None, 8, table=torch.zeros(256))
    with pytest.raises(ValueError, match="codes of 8 bits by a table"):
        CpuKernels(1).pack_codes(weight)


def test_rows_of_eight_bits_are_rounded_block_by_block():
    if not c.native().has_byte_products:
        pytest.skip("the processor has no dot products of bytes")
    check_rows_of_bytes()


@pytest.mark.parametrize("row_bits", [8, 16])
@pytest.mark.parametrize("bits", [4, 8])
def test_a_row_does_not_depend_on_the_rows_beside_it(bits, row_bits):
    source = torch.Generator().manual_seed(3)
    weight = random_weight(bits, 70, 256, 32, False, source)
    linear = CpuKernels(2).pack_codes(replace(weight, row_bits=row_bits))
    x = torch.randn(29, 256, generator=source)
    whole = linear.apply(x)
    assert torch.equal(whole, torch.cat([linear.apply(row[None]) for row in x]))


@pytest.mark.parametrize("row_bits", [8, 16])
@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_a_row_that_is_no_number_gives_none(fault, row_bits):
    source = torch.Generator().manual_seed(4)
    weight = replace(random_weight(8, 40, 64, 64, False, source), row_bits=row_bits)
    linear = CpuKernels(1).pack_codes(weight)
    x = torch.randn(2, 64, generator=source)
    x[0, 5] = fault
    found = linear.apply(x)
    assert not found[0].isfinite().any()
    assert found[1].isfinite().all()


def test_rows_and_scales_of_zeros_and_of_tiny_values_are_computed():
    source = torch.Generator().manual_seed(5)
    weight = random_weight(4, 32, 64, 32, False, source)
    weight.scales[0] = 0
    weight.scales[1] *= 1e-9
    x = torch.randn(3, 64, generator=source)
    x[0] = 0
    x[1] *= 1e-30
    found, expected = CpuKernels(1).pack_codes(weight).apply(x), x @ weight.dequantize().t()
    assert not found[0].any()
    assert not found[:, 0].any()
    for row in (1, 2):
        for outputs in (slice(1, 2), slice(2, None)):
            part = expected[row, outputs]
            assert (found[row, outputs] - part).norm() <= 2e-3 * part.norm()


def test_codes_take_their_bits_and_no_more():
    source = torch.Generator().manual_seed(6)
    kernels = CpuKernels(1)
    values = 128 * 256
    eight = kernels.pack_codes(random_weight(8, 128, 256, 256, False, source))
    assert eight.resident_bytes == values + 128 * (2 + 4)
    four = kernels.pack_codes(random_weight(4, 128, 256, 32, False, source))
    assert four.resident_bytes == values // 2 + 128 * (8 * 2 + 4)


def test_groups_that_no_kernel_takes_are_refused():
    weight = random_weight(8, 4, 64, 12, False, torch.Generator().manual_seed(7))
    with pytest.raises(ValueError, match="groups of 12: they are no multiple of 8"):
        CpuKernels(1).pack_codes(weight)
