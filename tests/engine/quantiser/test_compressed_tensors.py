"""What is written is the compressed-tensors format, read here by its specification."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.quantiser.compressed_tensors import quantization_config, stored_tensors
from agentrt.engine.models.quantiser.rounding import RoundingScheme, round_to_nearest
from tests.engine.quantiser.pack_quantized import unpacked

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@quick
@given(
    rows=st.integers(1, 9),
    inputs=st.integers(1, 70),
    bits=st.sampled_from([4, 8]),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
)
def test_a_matrix_is_read_back(rows, inputs, bits, dtype):
    inputs *= 2
    weight = torch.randn(rows, inputs, generator=torch.Generator().manual_seed(rows))
    made = round_to_nearest(weight, RoundingScheme(bits, 0, dtype))
    stored = stored_tensors("a", made, dtype)
    assert stored.keys() == {"a.weight_packed", "a.weight_scale", "a.weight_shape"}
    assert stored["a.weight_packed"].dtype is torch.int32
    assert stored["a.weight_packed"].shape == (rows, -(-inputs * bits // 32))
    assert stored["a.weight_scale"].dtype is dtype
    assert stored["a.weight_shape"].tolist() == [rows, inputs]
    assert torch.equal(unpacked(stored, "a", bits), made.dequantize())


def test_words_hold_codes_from_their_lowest_bits_up():
    weight = torch.tensor([[-8.0, 7, 0, 1, 2, 3, -1, -2]])
    made = round_to_nearest(weight, RoundingScheme(4, 0, torch.float32))
    assert made.scales.tolist() == [[1.0]]
    word = int(stored_tensors("a", made, torch.float32)["a.weight_packed"][0, 0]) & 0xFFFFFFFF
    assert f"{word:08x}" == "67ba98f0"


def test_the_form_of_most_modules_is_that_of_their_class():
    four, eight = RoundingScheme(4, 32, torch.bfloat16), RoundingScheme(8, 0, torch.bfloat16)
    config = quantization_config({"a": eight, "b": four, "c": four}, ["lm_head", "d"])
    groups = config["config_groups"]
    assert [group["targets"] for group in groups.values()] == [["Linear"], ["a"]]
    assert groups["group_0"]["weights"]["strategy"] == "group"
    assert groups["group_0"]["weights"]["group_size"] == 32
    assert groups["group_1"]["weights"]["strategy"] == "channel"
    assert groups["group_1"]["weights"]["num_bits"] == 8
    assert config["ignore"] == ["d", "lm_head"]


def test_the_library_reads_the_config_and_the_matrices():
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig

    weight = torch.randn(6, 128, generator=torch.Generator().manual_seed(0))
    forms: list[tuple[Literal[4, 8], int]] = [(4, 32), (4, 0), (8, 0), (8, 64)]
    for bits, group in forms:
        scheme = RoundingScheme(bits, group, torch.bfloat16)
        config = QuantizationConfig(**quantization_config({"a": scheme}, ["lm_head"]))
        form = config.config_groups["group_0"]
        made = round_to_nearest(weight, scheme)
        stored = stored_tensors("a", made, torch.float32)
        state = {name.removeprefix("a."): tensor for name, tensor in stored.items()}
        reader = BaseCompressor.get_value_from_registry(form.format)
        assert torch.equal(reader.decompress(state, form)["weight"], made.dequantize())
