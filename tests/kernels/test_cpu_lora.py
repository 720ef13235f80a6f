"""Adapters in the native stack: rows of several beside stacks with merged weights."""

from dataclasses import replace

import pytest
import torch

from agentrt_kernels.cpu.stack import Matrix
from agentrt_kernels.lora import LayerLowRank, LowRank, RankSpan, add_low_rank
from tests.kernels.test_cpu_stack import (
    DIM,
    HEADS,
    HIDDEN,
    INNER,
    KINDS,
    LAYERS,
    LOOSE,
    PAGE,
    PAIRS,
    TOKENS,
    apart,
    batch,
    layer_of,
)


def low_rank(source, dtype, inputs, *parts):
    """A random part of a linear that joins parts of (outputs, ranks)."""
    outputs, ranks = sum(one for one, _ in parts), sum(one for _, one in parts)
    up, spans, output, rank = torch.zeros(outputs, ranks), [], 0, 0
    for wide, own in parts:
        up[output : output + wide, rank : rank + own] = torch.randn(wide, own, generator=source)
        if own:
            spans.append(RankSpan(output, output + wide, rank, rank + own))
        output, rank = output + wide, rank + own
    down = torch.randn(ranks, inputs, generator=source) * 0.2
    scales = torch.rand(ranks, generator=source)
    return LowRank(down.to(dtype), scales, (up * 0.2).to(dtype), tuple(spans))


def adapter_of(number, source, dtype):
    """Adapters of several ranks; the second leaves keys, gates and every other layer alone."""
    query, pair = HEADS * DIM, PAIRS * DIM
    if number == 0:
        layer = LayerLowRank(
            low_rank(source, dtype, HIDDEN, (query, 5), (pair, 3), (pair, 9)),
            low_rank(source, dtype, query, (HIDDEN, 4)),
            low_rank(source, dtype, HIDDEN, (INNER, 2), (INNER, 7)),
            low_rank(source, dtype, INNER, (HIDDEN, 1)),
        )
        return [layer] * LAYERS
    layer = LayerLowRank(
        qkv=low_rank(source, dtype, HIDDEN, (query, 17), (pair, 0), (pair, 2)),
        gate_up=low_rank(source, dtype, HIDDEN, (INNER, 0), (INNER, 6)),
    )
    return [layer if at % 2 else LayerLowRank() for at in range(LAYERS)]


def merged(layer, part):
    """A layer with an adapter's products in its weights."""

    def sum_of(matrix, matrix_part):
        if matrix_part is None:
            return matrix
        product = matrix_part.up.float() * matrix_part.scales @ matrix_part.down.float()
        weight = matrix.weight.float() + product
        return Matrix(weight.to(matrix.weight.dtype), matrix.bias)

    return replace(
        layer,
        qkv=sum_of(layer.qkv, part.qkv),
        out=sum_of(layer.out, part.out),
        gate_up=sum_of(layer.gate_up, part.gate_up),
        down=sum_of(layer.down, part.down),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_several_adapters_share_a_call(kernels, dtype, kind):
    source = torch.Generator().manual_seed(3)
    shape = KINDS[kind]
    embedding, head = (torch.randn(TOKENS, HIDDEN, generator=source).to(dtype) for _ in range(2))
    norm = torch.randn(HIDDEN, generator=source).to(dtype)
    layers = [layer_of(number, kind, dtype, source) for number in range(LAYERS)]
    adapters = [adapter_of(number, source, dtype) for number in range(2)]
    angles = [torch.randn(64, DIM, generator=source) for _ in range(LAYERS)]
    memory = torch.randn(100, LAYERS, 2, PAGE, PAIRS, DIM, generator=source).to(dtype)

    def bound(own):
        stack, pages = kernels.stack(shape, embedding, iter(own), norm, head), memory.clone()
        stack.bind(pages, angles)
        return stack, pages

    mixed, pages = bound(layers)
    mixed.attach(adapters)
    single = [bound(layers)] + [
        bound([merged(*one) for one in zip(layers, adapter, strict=True)]) for adapter in adapters
    ]
    sequences = [(0, 20), (5, 1), (30, 1), (0, 3), (9, 2)]
    owners = [1, 2, 0, 2, 1]
    ids, positions, slots, rows = batch(sequences, source)
    of_rows = torch.tensor(owners).repeat_interleave(torch.tensor([n for _, n in sequences])).int()
    wanted = torch.tensor([4, 19, 20, 21, 24, 26])
    found = mixed(ids, positions, slots, rows, wanted, of_rows)
    for number, (stack, own_pages) in enumerate(single):
        expected = stack(ids, positions, slots, rows, wanted)
        own = of_rows[wanted] == number
        assert apart(found[own], expected[own]) < LOOSE[dtype] * 2
        written = slots[of_rows == number]
        at, offset = written // PAGE, written % PAGE
        stored = pages[at, :, :, offset].float()
        assert apart(stored, own_pages[at, :, :, offset].float()) < LOOSE[dtype] * 2
    plain = mixed(ids, positions, slots, rows, wanted)
    assert apart(plain, single[0][0](ids, positions, slots, rows, wanted)) < LOOSE[dtype]


def test_the_reference_adds_to_the_rows_of_each_adapter():
    source = torch.Generator().manual_seed(4)
    x, out = torch.randn(5, 6, generator=source), torch.randn(5, 8, generator=source)
    part = low_rank(source, torch.float32, 6, (3, 2), (5, 1))
    expected = out.clone()
    for row in (0, 3):
        expected[row] += part.up @ (part.scales * (part.down @ x[row]))
    add_low_rank(x, out, [None, part], torch.tensor([2, 0, 1, 2, 0]).int())
    assert torch.allclose(out, expected, atol=1e-5)
