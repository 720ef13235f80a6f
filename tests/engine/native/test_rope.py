"""Angles, and heads of which only a part turns."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, Phi3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from agentrt.engine.models.native.rope import angle_tables, angles, frequencies, head_order
from agentrt.engine.models.native.rope_config import rope_of
from agentrt.engine.models.native.shape import Rope

POSITIONS = 40


def turned(head, cosines, sines):
    """Halves of `head` `[..., width]` against each other."""
    first, second = head.chunk(2, -1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)


@settings(derandomize=True, database=None, deadline=None, max_examples=30)
@given(half=st.integers(1, 8), interleaved=st.booleans(), data=st.data())
def test_part_of_a_head_turns_as_it_would_alone(half, interleaved, data):
    head_dim, width = 2 * half, 2 * data.draw(st.integers(1, half))
    rope = Rope(100.0, width, interleaved=interleaved)
    table = angles(rope, head_dim, POSITIONS, torch.device("cpu"))
    order = head_order(rope, head_dim)
    assert sorted(order) == list(range(head_dim))
    heads = torch.randn((POSITIONS, head_dim), generator=torch.Generator().manual_seed(half))

    mine = turned(heads[:, order], *table.chunk(2, -1))

    alone = angles(Rope(100.0, width), width, POSITIONS, torch.device("cpu"))
    part = heads[:, :width]
    if interleaved:
        part = torch.cat((part[:, ::2], part[:, 1::2]), -1)
    theirs = torch.cat((turned(part, *alone.chunk(2, -1)), heads[:, width:]), -1)
    torch.testing.assert_close(mine, theirs[:, head_order(Rope(100.0, width), head_dim)])


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


YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 128}
LONGROPE = {
    **{"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [9.0] * 4},
    "original_max_position_embeddings": 128,
}
SCALED = [
    (LlamaConfig, YARN),
    (LlamaConfig, {**YARN, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}),
    (LlamaConfig, {**YARN, "attention_factor": 0.7}),
    (LlamaConfig, {**YARN, "mscale": 1.2, "mscale_all_dim": 0.6}),
    (LlamaConfig, {"rope_type": "dynamic", "factor": 3.0}),
    (Phi3Config, LONGROPE),
    (Phi3Config, {**LONGROPE, "attention_factor": 1.3}),
]


@pytest.mark.parametrize(("kind", "rope"), SCALED, ids=str)
def test_scaled_angles_are_those_of_transformers(kind, rope):
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 1024}
    if kind is Phi3Config:
        sizes["original_max_position_embeddings"] = 128
    config = kind(**sizes, rope_parameters={**rope, "rope_theta": 1e4})
    expected, amplitude = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
    mine = rope_of(config.to_dict(), 8)
    assert mine is not None
    torch.testing.assert_close(frequencies(mine, 8), expected)
    assert mine.amplitude == pytest.approx(amplitude)


def test_layers_without_a_rope_do_not_turn_and_others_share_a_table():
    tables = angle_tables([Rope(100.0, 8), None, Rope(100.0, 8)], 8, POSITIONS, torch.device("cpu"))
    assert tables[0] is tables[2]
    heads = torch.randn(POSITIONS, 8)
    torch.testing.assert_close(turned(heads, *tables[1].chunk(2, -1)), heads)


def test_only_what_turns_has_an_amplitude():
    table = angles(Rope(100.0, 4, amplitude=3.0), 8, POSITIONS, torch.device("cpu"))
    plain = angles(Rope(100.0, 4), 8, POSITIONS, torch.device("cpu"))
    factors = torch.tensor([3.0, 3.0, 1.0, 1.0])
    torch.testing.assert_close(table, plain * torch.cat((factors, factors)))
