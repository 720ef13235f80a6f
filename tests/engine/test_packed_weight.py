"""The form of quantised matrices: what it stands for, and what is no such form."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agentrt.base.errors import InternalError
from agentrt.engine.models.packed_weight import PackedWeight, concatenated_rows


def four_bits(zeros=None, group=2):
    codes = torch.tensor([[0x98, 0x0F], [0x77, 0x80]], dtype=torch.uint8)
    scales = torch.tensor([[1.0, 0.5], [-2.0, 1.0]])
    return PackedWeight(4, codes, scales, zeros, group)


def test_lower_halves_hold_even_inputs():
    assert four_bits().codes().tolist() == [[8, 9, 15, 0], [7, 7, 0, 8]]


def test_four_bits_are_centred_at_eight():
    assert four_bits().dequantize().tolist() == [[0.0, 1.0, 3.5, -4.0], [2.0, 2.0, -8.0, 0.0]]


def test_zeros_are_in_steps():
    zeros = torch.tensor([[8.5, 0.0], [0.0, 8.0]])
    expected = [[-0.5, 0.5, 7.5, 0.0], [-14.0, -14.0, -8.0, 0.0]]
    assert four_bits(zeros).dequantize().tolist() == expected


def test_the_last_group_may_be_shorter():
    values = torch.tensor([[1, 2, 3, 4, -5]], dtype=torch.int8)
    one = PackedWeight(8, values, torch.tensor([[1.0, 2.0]]), None, 4)
    assert one.dequantize().tolist() == [[1.0, 2.0, 3.0, 4.0, -10.0]]


def test_inputs_in_another_order_are_those_of_the_matrix():
    whole = replace(four_bits(), order=torch.tensor([3, 0, 2, 1], dtype=torch.int32))
    assert whole.dequantize().tolist() == [[1.0, -4.0, 3.5, 0.0], [2.0, 0.0, -8.0, 2.0]]
    assert whole.resident_bytes == four_bits().resident_bytes + 16


def test_rows_and_their_concatenation_are_those_of_the_matrix():
    whole = four_bits(torch.full((2, 2), 7.0))
    swapped = concatenated_rows([whole.rows(slice(1, 2)), whole.rows(torch.tensor([0]))])
    assert torch.equal(swapped.dequantize(), whole.dequantize().flip(0))
    assert swapped.shape == (2, 4)
    assert swapped.numel() == 8


def test_bytes_are_those_of_all_tensors():
    assert four_bits().resident_bytes == 4 + 16
    assert four_bits(torch.zeros(2, 2)).resident_bytes == 4 + 16 + 16


def test_tensors_that_do_not_fit_are_refused():
    with pytest.raises(InternalError, match=r"scales of \(2, 2\), not \(2, 1\)"):
        four_bits(group=4)
    with pytest.raises(InternalError, match="8 bits"):
        PackedWeight(8, torch.zeros(1, 2, dtype=torch.uint8), torch.ones(1, 1), None, 2)


def test_an_order_of_other_inputs_is_refused():
    with pytest.raises(InternalError, match=r"an order of \(3,\) for 4 inputs"):
        replace(four_bits(), order=torch.arange(3))


def test_different_forms_are_not_concatenated():
    ordered = replace(four_bits(), order=torch.arange(4))
    assert concatenated_rows([ordered, ordered]).order is not None
    with pytest.raises(InternalError, match="forms"):
        concatenated_rows([ordered, four_bits()])
    with pytest.raises(InternalError, match="zeros"):
        concatenated_rows([four_bits(), four_bits(torch.zeros(2, 2))])
