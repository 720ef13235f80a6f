"""All layers in one native call, against the reference's operations one by one."""

from copy import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from agentrt_kernels.contract import GELU_TANH, HeadNorms, PagedRows, Score
from agentrt_kernels.cpu.stack import Matrix, StackLayer, StackShape
from agentrt_kernels.kv_codes import CODE_DTYPES, decode_heads, encode_heads
from agentrt_kernels.reference import Reference

LAYERS, HIDDEN, HEADS, PAIRS, DIM, INNER, TOKENS = 3, 72, 6, 2, 32, 100, 90
EPSILON, PAGE = 1e-4, 4
LOOSE = {torch.float32: 1e-5, torch.bfloat16: 0.1}
"""How far apart two results may be, as a share of their size: bf16 rounds between operations, and
sharp softmaxes widen that; another operation would be apart by about 1."""
BETWEEN_CODES = {torch.int8: 2e-3, torch.float8_e4m3fn: 1e-2}
"""The same where keys and values are codes: one between two may become either."""

SHAPE = StackShape(LAYERS, HIDDEN, HEADS, INNER, EPSILON, 1.5, 0.4, 0.3)
KINDS = {
    "plain": SHAPE,
    "with everything": SHAPE,
    "norms on both sides": replace(SHAPE, activation=GELU_TANH, logits_softcap=0.7),
    "norms behind": SHAPE,
    "parallel": replace(SHAPE, parallel=True, centered=True),
    "weights of each head": replace(SHAPE, centered=True),
}


def layer_of(number, kind, dtype, source):
    """With everything: with biases, head norms and sinks."""
    full = kind == "with everything"
    behind = kind in ("norms on both sides", "norms behind")

    def random(*shape, scale=0.2):
        return (torch.randn(shape, generator=source) * scale).to(dtype)

    def matrix(outputs, inputs):
        return Matrix(random(outputs, inputs), random(outputs) if full else None)

    own = kind == "weights of each head"
    return StackLayer(
        norm=None if kind == "norms behind" else random(HIDDEN, scale=1),
        out_norm=random(HIDDEN, scale=1) if behind else None,
        qkv=matrix((HEADS + 2 * PAIRS) * DIM, HIDDEN),
        query_norm=random(HEADS, DIM, scale=1) if own else random(DIM, scale=1) if full else None,
        key_norm=random(PAIRS, DIM, scale=1) if own else random(DIM, scale=1) if full else None,
        out=matrix(HIDDEN, HEADS * DIM),
        inner_norm=None if kind in ("norms behind", "parallel") else random(HIDDEN, scale=1),
        inner_out_norm=random(HIDDEN, scale=1) if behind else None,
        gate_up=matrix(2 * INNER, HIDDEN),
        down=matrix(HIDDEN, INNER),
        score=Score(
            0.2,
            window=7 if number == 1 else None,
            sinks=random(HEADS) if full else None,
            unseen=2 if number == 2 else 0,
        ),
    )


def batch(sequences, source):
    """Rows of (tokens before, rows) each with pages of its own; ids, positions, slots too."""
    table = torch.randperm(len(sequences) * 16, generator=source).view(len(sequences), 16).int()
    counts = [rows for _, rows in sequences]
    positions = [before + at for before, rows in sequences for at in range(rows)]
    owners = [number for number, rows in enumerate(counts) for _ in range(rows)]
    slots = [
        int(table[owner, at // PAGE]) * PAGE + at % PAGE
        for owner, at in zip(owners, positions, strict=True)
    ]
    rows = PagedRows(
        torch.tensor([0, *counts]).cumsum(0).int(),
        torch.tensor([sum(one) for one in sequences]).int(),
        table,
        max(counts),
        max(sum(one) for one in sequences),
    )
    ids = [(7 * at) % TOKENS for at in range(len(slots))]
    return torch.tensor(ids), torch.tensor(positions), torch.tensor(slots), rows


def apart(found, expected):
    """The size of the difference, as a share."""
    return float((found - expected).norm() / expected.norm().clamp(min=1e-9))


class Memory:
    """Keys and values `[pages, layers, 2, P, K, D]`, and their scales if they are codes."""

    def __init__(self, source, dtype, codes):
        values = torch.randn(100, LAYERS, 2, PAGE, PAIRS, DIM, generator=source).to(dtype)
        self.values, self.scales = values, None
        if codes is not None:
            self.values, scales = encode_heads(values, codes)
            self.scales = scales.transpose(-1, -2).contiguous()

    def layer(self, number):
        return self.values[:, number], None if self.scales is None else self.scales[:, number]

    def copied(self):
        """A copy that the reference can compute with, in fp32."""
        made = copy(self)
        made.values = self.values.float() if self.scales is None else self.values.clone()
        made.scales = None if self.scales is None else self.scales.clone()
        return made

    def wide(self):
        if self.scales is None:
            return self.values.float()
        return decode_heads(self.values, self.scales.transpose(-1, -2))


def one_by_one(shape, embedding, layers, norm, head, memory, angles, inputs, wanted):
    """The same in fp32, an operation at a time."""
    one = Reference()
    ids, positions, slots, rows = inputs
    stream = embedding[ids].float() * shape.embedding_scale

    def normed(x, weight):
        if weight is None:
            return x.clone()
        out = torch.empty_like(x)
        one.rms_norm(x, weight.float(), EPSILON, out, centered=shape.centered)
        return out

    def times(x, matrix):
        bias = None if matrix.bias is None else matrix.bias.float()
        return functional.linear(x, matrix.weight.float(), bias)

    outputs, streams = [], []
    for number, layer in enumerate(layers):
        streams.append(stream.clone())
        x = normed(stream, layer.norm)
        qkv = times(x, layer.qkv).view(len(ids), HEADS + 2 * PAIRS, DIM)
        norms = None
        if layer.query_norm is not None:
            weights = layer.query_norm.float(), layer.key_norm.float()
            norms = HeadNorms(*weights, EPSILON, shape.centered)
        query = torch.empty(len(ids), HEADS, DIM)
        pages, scales = memory.layer(number)
        one.rope_store(qkv, positions, angles[number], slots, norms, pages, query, scales)
        mixed = torch.empty_like(query)
        one.attend(query, pages, rows, layer.score, mixed, scales)
        stream += normed(times(mixed.flatten(1), layer.out), layer.out_norm) * shape.residual_scale
        if not shape.parallel:
            x = normed(stream, layer.inner_norm)
        inner = torch.empty(len(ids), INNER)
        one.gate_mul(times(x, layer.gate_up), inner, shape.activation)
        stream += normed(times(inner, layer.down), layer.inner_out_norm) * shape.residual_scale
        outputs.append(stream[wanted].clone())
    logits = normed(stream, norm)[wanted] @ head.float().T * shape.logits_scale
    cap = shape.logits_softcap
    return logits if cap is None else cap * torch.tanh(logits / cap), torch.stack(outputs), streams


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codes", [None, *CODE_DTYPES.values()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_stack_computes_what_its_operations_do(kernels, dtype, codes, kind):
    source = torch.Generator().manual_seed(2)
    shape = KINDS[kind]
    embedding, head = (torch.randn(TOKENS, HIDDEN, generator=source).to(dtype) for _ in range(2))
    norm = torch.randn(HIDDEN, generator=source).to(dtype)
    layers = [layer_of(number, kind, dtype, source) for number in range(LAYERS)]
    stack = kernels.stack(shape, embedding, iter(layers), norm, head)
    angles = [torch.randn(64, DIM, generator=source) for _ in range(LAYERS)]
    memory = Memory(source, dtype, codes)
    theirs = memory.copied()
    stack.bind(memory.values, angles, memory.scales)
    stack.capture([0, 2])
    loose = max(LOOSE[dtype], BETWEEN_CODES.get(codes, 0))
    for sequences, wanted, told in (
        ([(0, 20), (5, 1), (30, 1), (0, 3)], [19, 20, 21, 24], True),
        ([(20, 1), (6, 1), (31, 2), (3, 1)], [0, 3], False),
        ([(40, 5), (0, 17)], [], True),
        ([(50, 1)], [0], True),
    ):
        inputs, rows = batch(sequences, source), torch.tensor(wanted, dtype=torch.int64)
        expected, outputs, streams = one_by_one(
            shape, embedding, layers, norm, head, theirs, angles, inputs, rows
        )
        layer_outputs = torch.full((LAYERS, len(wanted), HIDDEN), torch.nan)
        captured = torch.full((len(inputs[0]), 2, HIDDEN), torch.nan)
        found = stack(
            *inputs,
            rows,
            layer_outputs=layer_outputs if told else None,
            captured=captured if told else None,
        )
        assert found.shape == (len(wanted), TOKENS)
        assert apart(found, expected) < loose
        if told:
            assert apart(layer_outputs, outputs) < loose
            assert apart(captured, torch.stack([streams[0], streams[2]], 1)) < loose
        else:
            assert layer_outputs.isnan().all()
            assert captured.isnan().all()
        assert apart(memory.wide(), theirs.wide()) < loose
        theirs = memory.copied()
