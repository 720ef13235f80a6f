"""The set that needs no compiler, held to the reference where no model reaches."""

import pytest
import torch

from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt_kernels import load
from agentrt_kernels.contract import HeadNorms

HEADS, PAIRS, DIM, PAGE, PAGES, LAYERS = 4, 2, 8, 4, 5, 3
ROWS = 6


def some(source, *size):
    return torch.randn(size, generator=source)


@pytest.fixture
def forward():
    """What the layers of one forward are given."""
    source = torch.Generator().manual_seed(5)
    positions = torch.tensor([3, 4, 5, 0, 9, 1])
    turns = positions.max() + 1
    angle = torch.rand((int(turns), DIM // 2), generator=source) * 6
    slots = torch.tensor([7, 8, -1, 0, 19, -1])
    return source, positions, torch.cat((angle.cos(), angle.sin()), -1), slots


@pytest.mark.parametrize("normed", ["", "alike", "own"])
def test_rotation_and_store_equal_the_reference_in_every_layer(normed, forward):
    source, positions, angles, slots = forward
    mine, theirs = TorchKernels(), load("reference")
    memory = torch.zeros(PAGES, LAYERS, 2, PAGE, PAIRS, DIM)
    expected = memory.clone()
    for turn in range(2):  # the next forward brings other tensors
        rows = slots if turn == 0 else slots.flip(0).contiguous()
        for layer in range(LAYERS):
            qkv = some(source, ROWS, HEADS + 2 * PAIRS, DIM)
            shapes = [(HEADS, DIM), (PAIRS, DIM)] if normed == "own" else [(DIM,), (DIM,)]
            weights = [some(source, *shape) for shape in shapes]
            norms = HeadNorms(weights[0], weights[1], 1e-5, normed == "own") if normed else None
            made, wanted = torch.empty(ROWS, HEADS, DIM), torch.empty(ROWS, HEADS, DIM)
            mine.rope_store(qkv, positions, angles, rows, norms, memory[:, layer], made)
            theirs.rope_store(qkv, positions, angles, rows, norms, expected[:, layer], wanted)
            torch.testing.assert_close(made, wanted)
            torch.testing.assert_close(memory, expected)
    assert bool((expected != 0).any())


def test_grouped_products_equal_the_reference(forward):
    source = forward[0]
    x, weight, start = some(source, 6, 8), some(source, 4, 5, 8), torch.tensor([0, 2, 2, 5, 6])
    made, wanted = torch.empty(6, 5), torch.empty(6, 5)
    TorchKernels().grouped_linear(x, weight, start.int(), made)
    load("reference").grouped_linear(x, weight, start.int(), wanted)
    torch.testing.assert_close(made, wanted)
