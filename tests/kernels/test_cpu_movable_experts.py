"""Experts that can be moved compute what those in one arena compute, wherever they lie."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.contract import SILU
from agentrt_kernels.cpu.experts import PackedExperts
from agentrt_kernels.cpu.movable_experts import MovableExperts
from tests.kernels.test_cpu_experts import random_experts, with_orders

pytestmark = pytest.mark.usefixtures("native")
quick = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def moved(block: torch.Tensor) -> torch.Tensor:
    """The block at another place, that begins a line of the cache."""
    memory = torch.full((block.numel() + 64,), 255, dtype=torch.uint8)
    skip = -memory.data_ptr() % 64
    return memory[skip : skip + block.numel()].copy_(block)


@quick
@given(
    rows=st.sampled_from([1, 3, 17]),
    count=st.integers(1, 5),
    inner=st.sampled_from([8, 34]),
    bits=st.sampled_from([0, 4, 8]),
    biased=st.booleans(),
    reordered=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    order=st.randoms(use_true_random=False),
)
def test_a_move_changes_no_bit(native, rows, count, inner, bits, biased, reordered, dtype, order):
    source = torch.Generator().manual_seed(rows)
    experts = random_experts(count, 40, inner, bits, biased, dtype, source)
    if reordered and bits:
        experts = [with_orders(one, source) for one in experts]
    packed = PackedExperts(native, experts, SILU)
    blocks: list[torch.Tensor] = []
    movable = MovableExperts(native, experts, SILU, lambda block: blocks.append(moved(block)))
    x = torch.randn(rows, 40, generator=source).to(dtype)
    choices = order.randint(1, count)
    chosen = torch.rand(rows, count, generator=source).argsort(-1)[:, :choices].contiguous()
    shares = torch.rand(rows, choices, generator=source)
    expected, found = torch.empty_like(x), torch.empty_like(x)
    packed.apply(x, chosen, shares, expected)
    assert {len(block) for block in blocks} == {movable.block_bytes}
    assert movable.is_quantised == bool(bits)
    for number, block in enumerate(blocks):
        movable.place(number, block.data_ptr())
    for _ in range(2):
        movable.apply(x, chosen, shares, found)
        assert torch.equal(found, expected)
        number = order.randrange(count)
        kept = moved(blocks[number])
        movable.place(number, kept.data_ptr())
        blocks[number].zero_()


def test_experts_of_unlike_shapes_are_refused(native):
    source = torch.Generator().manual_seed(0)
    unlike = [
        *random_experts(1, 8, 8, 0, False, torch.float32, source),
        *random_experts(1, 8, 16, 0, False, torch.float32, source),
    ]
    with pytest.raises(ValueError, match="expert 1 has other matrices"):
        MovableExperts(native, unlike, SILU, lambda block: None)


@pytest.mark.parametrize("bits", [0, 8])
def test_packed_experts_lie_where_they_lay(native, bits):
    source = torch.Generator().manual_seed(1)
    experts = random_experts(3, 40, 16, bits, True, torch.float32, source)
    packed = PackedExperts(native, experts, SILU)

    def never(block: torch.Tensor) -> None:
        raise AssertionError("packed experts need no other memory")

    movable = MovableExperts(native, packed.packed(), SILU, never)
    x = torch.randn(5, 40, generator=source)
    chosen = torch.tensor([[0, 1], [1, 2], [2, 0], [1, 0], [2, 1]])
    shares = torch.rand(5, 2, generator=source)
    expected, found = torch.empty_like(x), torch.empty_like(x)
    packed.apply(x, chosen, shares, expected)
    block = moved(torch.zeros(movable.block_bytes, dtype=torch.uint8))
    movable.apply(x, chosen, shares, found)
    assert torch.equal(found, expected)
    movable.copy(movable.packed[1], block)
    movable.place(1, block.data_ptr())
    movable.apply(x, chosen, shares, found)
    assert torch.equal(found, expected)
    movable.place_packed(1)
    block.fill_(255)
    movable.apply(x, chosen, shares, found)
    assert torch.equal(found, expected)
