"""Angles, and heads of which only a part turns."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.native.rope import angles, frequencies, head_order
from agentrt.engine.models.native.shape import Rope

POSITIONS = 40


def turned(head, cosines, sines):
    """Halves of `head` `[..., width]` against each other."""
    first, second = head.chunk(2, -1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)


@settings(derandomize=True, database=None, deadline=None, max_examples=30)
@given(half=st.integers(1, 8), data=st.data())
def test_part_of_a_head_turns_as_it_would_alone(half, data):
    head_dim, width = 2 * half, 2 * data.draw(st.integers(1, half))
    rope = Rope(100.0, width)
    table = angles(rope, head_dim, POSITIONS, torch.device("cpu"))
    order = head_order(rope, head_dim)
    assert sorted(order) == list(range(head_dim))
    heads = torch.randn((POSITIONS, head_dim), generator=torch.Generator().manual_seed(half))

    mine = turned(heads[:, order], *table.chunk(2, -1))

    alone = angles(Rope(100.0, width), width, POSITIONS, torch.device("cpu"))
    theirs = torch.cat((turned(heads[:, :width], *alone.chunk(2, -1)), heads[:, width:]), -1)
    torch.testing.assert_close(mine, theirs[:, order])


def test_a_whole_head_keeps_its_order():
    assert head_order(Rope(100.0, 8), 8) == list(range(8))


def test_a_stretch_makes_all_wavelengths_longer():
    plain, stretched = frequencies(Rope(100.0, 8), 8), frequencies(Rope(100.0, 8, factor=4.0), 8)
    torch.testing.assert_close(stretched * 4, plain)


def test_the_stretch_of_llama_3_leaves_short_wavelengths():
    plain = frequencies(Rope(1e4, 64), 64)
    stretched = frequencies(Rope(1e4, 64, llama3=(8.0, 1.0, 4.0, 256.0)), 64)
    assert stretched[0] == plain[0]
    assert stretched[-1] == pytest.approx(float(plain[-1]) / 8)
    assert bool((stretched <= plain).all())
