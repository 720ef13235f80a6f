"""The arithmetic of what a step has to read and compute."""

import pytest

from agentrt.analysis.model_shape import ModelShape
from agentrt.analysis.model_work import decode_work, prefill_flops, used_experts
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.checkpoints.weights import weights_of

SMALL = ModelShape("small", "llama", 8, 16, 2, 4, 2, 32, tied=True)
LAYER = 2 * 8 * 2 * (4 + 2) + 3 * 8 * 16


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_parameters_are_those_of_the_matrices(shape: ModelShape) -> None:
    counted = 0
    for fact in weights_of(shape):
        if len(fact.shape) == 2:
            counted += fact.shape[0] * fact.shape[1]
    assert counted == shape.parameters


def test_shapes_are_those_that_were_measured() -> None:
    assert round(SHAPES["tiny"].parameters / 1e6, 1) == 15.7
    assert round(SHAPES["half"].parameters / 1e6) == 303
    assert round(SHAPES["llama-3.1-8b"].parameters / 1e9, 2) == 8.03


def test_a_step_reads_weights_once_and_keys_of_every_sequence() -> None:
    one = decode_work(SMALL, "bfloat16", batch=1, history_tokens=10)
    four = decode_work(SMALL, "bfloat16", batch=4, history_tokens=10)
    assert one.weight_bytes == 2 * (2 * LAYER + 32 * 8)
    assert four.weight_bytes == one.weight_bytes
    assert one.kv_bytes == 10 * 2 * 2 * 2 * 2 * 2  # tokens, layers, k and v, heads, width, bytes
    assert four.kv_bytes == 4 * one.kv_bytes
    assert four.flops == 4 * one.flops


def test_a_shared_prefix_is_read_once() -> None:
    apart = decode_work(SMALL, "float32", batch=4, history_tokens=100)
    joint = decode_work(SMALL, "float32", batch=4, history_tokens=100, shared_tokens=90)
    assert joint.kv_bytes / apart.kv_bytes == (4 * 10 + 90) / 400
    assert joint.flops == apart.flops


def test_the_floor_is_the_slower_of_reading_and_computing() -> None:
    work = decode_work(SMALL, "float32", batch=4, history_tokens=10)
    assert work.roofline_s(read_bytes_s=1.0, flops_s=1e30) == work.bytes
    assert work.roofline_s(read_bytes_s=1e30, flops_s=1.0) == work.flops


def test_prefill_counts_each_row_and_one_row_of_logits() -> None:
    attention = 2 * 4 * 2 * sum(range(1, 11))
    expected = 2 * 2 * (10 * LAYER + attention) + 2 * 32 * 8
    assert prefill_flops(SMALL, 10) == pytest.approx(expected)


def test_prefill_after_a_prefix_is_what_is_left() -> None:
    whole = prefill_flops(SMALL, 100)
    head = 2 * SMALL.head_parameters
    parts = prefill_flops(SMALL, 60) - head + prefill_flops(SMALL, 100, 60)
    assert parts == pytest.approx(whole)


def test_a_batch_uses_more_experts_until_it_uses_all() -> None:
    mixtral = SHAPES["mixtral-scaled"]
    assert used_experts(SHAPES["tiny"], 7) == 1
    assert used_experts(mixtral, 1) == 2
    assert 7.9 < used_experts(mixtral, 16) < 8


def test_a_row_finds_room_for_two_rounds() -> None:
    row = SweepPoint(batch=16, prompt_tokens=256, new_tokens=32, shared_tokens=0, dtype="bfloat16")
    assert row.pages * 16 >= 2 * 16 * (256 + 32)
    assert row.running == 64
