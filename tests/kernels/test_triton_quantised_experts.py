"""Rows sorted by expert times experts in codes, by the Triton set, against what they stand for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.check.expert_product import expert_product_difference
from agentrt_kernels.check.stored import KINDS, stored
from agentrt_kernels.looped_experts import LoopedCodes
from agentrt_kernels.quantised_weight import E4M3, dequantised
from agentrt_kernels.reference import Reference

CPU = torch.device("cpu")
quick = settings(max_examples=12, deadline=None, derandomize=True, database=None)
wide = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_codes(interpreted, kind: str, dtype: torch.dtype) -> None:
    """A row or two of each expert as in a decode step, and several tiles of one as in a prompt."""
    for sizes, outputs, inputs in (((1, 0, 2), 20, 64), ((0, 18, 1, 33), 18, 160)):
        found = expert_product_difference(interpreted, kind, sizes, outputs, inputs, dtype, CPU)
        assert found <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_matrices(interpreted, kind: str) -> None:
    """Within a hundredth, rows rounded to FP8 included; no kernel has part in what is expected."""
    sizes, source = (5, 0, 17), torch.Generator().manual_seed(0)
    weights = [stored(kind, 24, 128, CPU, seed) for seed in range(3)]
    x = torch.randn(22, 128, generator=source)
    start = torch.tensor([0, *sizes]).cumsum(0).int()
    out = interpreted.pack_expert_codes(weights).apply(x, start, torch.empty(22, 24))
    parts = zip(pairwise(start.tolist()), weights, strict=True)
    expected = torch.cat([x[slice(*own)] @ dequantised(one).t() for own, one in parts])
    allowed = 5e-2 if kind.endswith("by fp8") else 1e-2
    assert (out - expected).norm() <= allowed * expected.norm()


@quick
@given(
    kind=st.sampled_from(list(KINDS)),
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=6),
    outputs=st.integers(1, 40),
    pairs=st.integers(1, 60),
    odd=st.booleans(),
    dtype=wide,
)
def check_shapes(interpreted, kind, sizes, outputs, pairs, odd, dtype):
    inputs = 2 * pairs + (odd and stored(kind, 1, 2, CPU).bits == 8)
    sizes = (*sizes, 1)
    found = expert_product_difference(interpreted, kind, sizes, outputs, inputs, dtype, CPU)
    assert found <= 1


def test_odd_shapes(interpreted) -> None:
    check_shapes(interpreted)


def test_codes_of_all_experts_take_their_bits_and_no_more(interpreted) -> None:
    four = [stored("int4 in groups", 128, 256, CPU, seed) for seed in range(3)]
    made = interpreted.pack_expert_codes(four, torch.zeros(3, 128))
    assert made.resident_bytes == 3 * (128 * 256 // 2 + 128 * (8 * 2 + 4))
    ordered = [stored("int4 reordered", 128, 256, CPU, seed) for seed in range(3)]
    made = interpreted.pack_expert_codes(ordered)
    assert made.resident_bytes == 3 * (128 * 256 // 2 + 128 * (2 * 2 + 4) + 256 * 8)


def test_one_launch_multiplies_by_all_experts(interpreted, monkeypatch) -> None:
    from triton.runtime.interpreter import GridExecutor

    made = interpreted.pack_expert_codes([stored("mxfp4", 40, 64, CPU, at) for at in range(5)])
    called: list[str] = []
    monkeypatch.setattr(
        GridExecutor, "__call__", lambda self, *args, **how: called.append(self.fn.__name__)
    )
    made.apply(torch.ones(7, 64), torch.tensor([0, 1, 1, 3, 6, 7]).int(), torch.empty(7, 40))
    assert called == ["_dequantised_gemm"]


def test_no_rows_are_multiplied_by_nothing(interpreted) -> None:
    made = interpreted.pack_expert_codes([stored("int8", 4, 8, CPU)])
    out = made.apply(torch.empty(0, 8), torch.zeros(2).int(), torch.empty(0, 4))
    assert out.shape == (0, 4)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("int8", "int4 in groups", id="bits"),
        pytest.param("int4 in groups", "int4 in groups with zeros", id="groups and zeros"),
        pytest.param("nf4", "mxfp4", id="tables"),
        pytest.param("fp8", "fp8 by fp8", id="rounding of rows"),
        pytest.param("int4 reordered", "int4 in groups with zeros", id="orders"),
    ],
)
def test_experts_of_different_forms_are_refused(interpreted, first: str, second: str) -> None:
    weights = [stored(kind, 8, 256, CPU) for kind in (first, second)]
    with pytest.raises(ValueError, match="experts differ"):
        interpreted.pack_expert_codes(weights)


def test_tables_of_the_same_form_have_to_be_equal(interpreted) -> None:
    one = stored("nf4", 8, 64, CPU)
    assert one.table is not None
    with pytest.raises(ValueError, match="experts differ"):
        interpreted.pack_expert_codes([one, replace(one, table=2 * one.table)])


def test_groups_that_rows_in_fp8_do_not_fit_are_refused(interpreted) -> None:
    one = replace(stored("int8", 4, 80, CPU), row_bits=8, table=E4M3, group=40)
    one = replace(one, scales=torch.ones(4, 2))
    with pytest.raises(ValueError, match="but for FP8 in groups of 32"):
        interpreted.pack_expert_codes([one, one])


def test_a_wrong_product_is_found() -> None:
    class Doubling(Reference):
        def pack_codes(self, weight, bias=None):
            return super().pack_codes(replace(weight, scales=2 * weight.scales), bias)

    class Filling(LoopedCodes):
        def apply(self, x, expert_start, out):
            return super().apply(x, expert_start, out.fill_(1))

    class Everywhere(Reference):
        def pack_expert_codes(self, weights, biases=None):
            rows = biases if biases is not None else [None] * len(weights)
            return Filling([self.pack_codes(*both) for both in zip(weights, rows, strict=True)])

    sizes = (2, 0, 3)
    for kind in KINDS:
        right, wrong, written = (
            expert_product_difference(kernels, kind, sizes, 8, 64, torch.float32, CPU)
            for kernels in (Reference(), Doubling(), Everywhere())
        )
        assert right <= 1 < wrong
        assert written == torch.inf
