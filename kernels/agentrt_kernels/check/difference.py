"""How far a set is from the reference, operation by operation.

Each function runs both on the same operands and returns the largest error as a share of what is
allowed: at most 1 if the set keeps the contract, infinite if a value was left unwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from agentrt_kernels.check.batch import Attention, batch_of
from agentrt_kernels.contract import GELU_TANH, SILU, Activation, HeadNorms, Kernels
from agentrt_kernels.kv_codes import SCALE_DTYPE
from agentrt_kernels.reference import Reference

ALLOWED = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Allowed error, absolute and relative: a few roundings of the dtype."""
_REFERENCE = Reference()


def attend(kernels: Kernels, case: Attention, device: torch.device) -> float:
    """Attention over the batch of a case."""
    found, expected = batch_of(case, device), batch_of(case, device)
    for one, made in ((kernels, found), (_REFERENCE, expected)):
        one.attend(made.query, made.layer_pages, made.rows, made.score, made.out, made.scales)
    return worst(found.out, expected.out)


def norms(
    kernels: Kernels, rows: int, width: int, dtype: torch.dtype, device: torch.device
) -> float:
    """The norm, with a residual and without, over rows that do not lie next to each other."""
    draw = _drawn(rows + width, device)
    x, residual = (draw(rows, width + 8).to(dtype)[:, :width] for _ in range(2))
    weight = draw(width).to(dtype)
    plain, carried, summed, layers = [], [], [], []
    for one in (kernels, _REFERENCE):
        plain.append(torch.full((rows, width), torch.nan, dtype=dtype, device=device))
        one.rms_norm(x, weight, 1e-6, plain[-1])
        layers.append(torch.full((rows, width), torch.nan, dtype=dtype, device=device))
        one.rms_norm(x, weight.float(), 1e-2, layers[-1], centered=True)
        carried.append(x.clone())
        summed.append(residual.clone())
        one.add_rms_norm(carried[-1], summed[-1], weight, 1e-6, carried[-1])
    return max(worst(*pair) for pair in (plain, layers, carried, summed))


def gate_mul(
    kernels: Kernels, rows: int, width: int, dtype: torch.dtype, device: torch.device
) -> float:
    """The gate, with every kind of activation."""
    gate_up = 3 * _drawn(rows + width, device)(rows, 2 * width)
    errors = []
    for activation in (SILU, GELU_TANH, Activation(1.7, 0.0, 1.0, 2.0)):
        outs = [torch.full((rows, width), torch.nan, dtype=dtype, device=device) for _ in range(2)]
        for one, out in zip((kernels, _REFERENCE), outs, strict=True):
            one.gate_mul(gate_up.to(dtype), out, activation)
        errors.append(worst(*outs))
    return max(errors)


def rope_store(
    kernels: Kernels,
    rows: int,
    heads: tuple[int, int, int],
    dtype: torch.dtype,
    device: torch.device,
    *,
    norms: Literal["none", "alike", "own"] = "none",
    page: int = 16,
) -> float:
    """Rotation and store, a third of the rows storing nothing; `heads` are H, K, D.

    Norms with weights of each head's own are centered, too.
    """
    count, kv_heads, width = heads
    draw = _drawn(rows + sum(heads), device)
    qkv = draw(rows, count + 2 * kv_heads, width).to(dtype)
    positions = torch.randint(0, 50, (rows,), generator=torch.Generator().manual_seed(rows))
    turn = draw(50, width // 2)
    slots = torch.arange(rows) * 7 % (7 * page)  # 7 and 16 share no factor: no slot comes twice
    slots[::3] = -1
    weights = [
        draw(*((number, width) if norms == "own" else (width,))).to(dtype)
        for number in (count, kv_heads)
    ]
    how = HeadNorms(weights[0], weights[1], 1e-6, norms == "own")
    pages, queries = [], []
    for one in (kernels, _REFERENCE):
        memory = torch.zeros(rows + 7, 2, 2, page, kv_heads, width, dtype=dtype, device=device)
        pages.append(memory[:, 1])
        queries.append(torch.full((rows, count, width), torch.nan, dtype=dtype, device=device))
        one.rope_store(
            qkv,
            positions.to(device),
            torch.cat([turn.cos(), turn.sin()], -1),
            slots.to(device),
            None if norms == "none" else how,
            pages[-1],
            queries[-1],
        )
    return max(worst(*pages), worst(*queries))


def rope_store_codes(
    kernels: Kernels,
    rows: int,
    heads: tuple[int, int, int],
    dtype: torch.dtype,
    device: torch.device,
    kind: torch.dtype,
) -> float:
    """Rotation and store into codes of a kind, one head all zeros; `heads` are H, K, D.

    A code, and the bits of a scale, may be next to those of the reference.
    """
    count, kv_heads, width = heads
    draw = _drawn(rows + sum(heads), device)
    qkv = draw(rows, count + 2 * kv_heads, width).to(dtype)
    qkv[-1, -1] = 0
    turn = draw(rows, width // 2)
    places = torch.arange(rows, device=device)
    codes, scales, queries = [], [], []
    for one in (kernels, _REFERENCE):
        memory = torch.zeros(rows, 2, 2, 16, kv_heads, width, dtype=kind, device=device)
        beside = torch.zeros(rows, 2, 2, kv_heads, 16, dtype=SCALE_DTYPE, device=device)
        codes.append(memory[:, 1])
        scales.append(beside[:, 1])
        queries.append(torch.full((rows, count, width), torch.nan, dtype=dtype, device=device))
        angles = torch.cat([turn.cos(), turn.sin()], -1)
        slots = torch.where(places % 3 == 0, -1, places * 7)
        one.rope_store(qkv, places, angles, slots, None, codes[-1], queries[-1], scales[-1])
    bits = [one.view(torch.int8).int() for one in codes]  # those of floats ascend, too
    apart = (bits[0] - bits[1]).abs().max()
    return max(float(apart), worst(*scales), worst(*queries))


def sample(
    kernels: Kernels, rows: int, vocabulary: int, device: torch.device, *, grain: float | None
) -> float:
    """Draws of every mixture of settings; `grain` rounds logits, so that many are equal.

    0 if every token is the reference's, infinite otherwise.
    """
    source = torch.Generator().manual_seed(vocabulary)
    logits = 3 * torch.randn(rows, vocabulary, generator=source)
    if grain is not None:
        logits = (logits / grain).round() * grain
    words = -(-vocabulary // 32)
    bits = torch.randint(-(2**31), 2**31, (rows, words), generator=source).int()
    bits[:, 0] |= 1
    choices: list[tuple[float, int, float, float]] = [
        (0.0, 0, 1.0, 0.0),
        (1.0, 0, 1.0, 0.0),
        (0.7, 5, 1.0, 0.0),
        (1.0, 0, 0.9, 0.0),
        (1.3, 40, 0.8, 0.02),
        (1.0, 0, 1.0, 0.1),
    ]
    how = [choices[row % len(choices)] for row in range(rows)]
    heat, top_k, top_p, min_p = (torch.tensor(column) for column in zip(*how, strict=True))
    uniform = torch.rand(rows, generator=source, dtype=torch.float64)
    settings = (heat, top_k.int(), top_p, min_p, uniform)
    outs = []
    for one in (kernels, _REFERENCE):
        for mask in (None, bits.to(device)):
            outs.append(torch.full((rows,), -1, dtype=torch.int64, device=device))
            draw, k, p, least, where = (setting.to(device) for setting in settings)
            one.sample(logits.to(device).clone(), mask, draw, k, p, least, where, outs[-1])
    return 0.0 if torch.equal(torch.cat(outs[:2]), torch.cat(outs[2:])) else torch.inf


def copy_pages(
    kernels: Kernels, pages: int, values: int, dtype: torch.dtype, device: torch.device
) -> float:
    """Every other page, in reverse; on CUDA from pinned memory too."""
    source = _drawn(pages, device)(pages, values).to(dtype)
    there = torch.arange(0, pages, 2, device=device)
    pairs = torch.stack([there, there.flip(0)], 1).contiguous()
    sources = [source, source.cpu().pin_memory()] if device.type == "cuda" else [source]
    largest = 0.0
    for one in sources:
        found, expected = torch.zeros_like(source), torch.zeros_like(source)
        kernels.copy_pages(one, found, pairs)
        _REFERENCE.copy_pages(source, expected, pairs)
        largest = max(largest, 0.0 if torch.equal(found, expected) else torch.inf)
    return largest


def grouped_linear(
    kernels: Kernels,
    sizes: tuple[int, ...],
    outputs: int,
    width: int,
    dtype: torch.dtype,
    device: torch.device,
) -> float:
    """`sizes` rows of each expert, some of them none."""
    draw = _drawn(sum(sizes) + width, device)
    x, weight = draw(sum(sizes), width), draw(len(sizes), outputs, width) * width**-0.5
    start = torch.tensor([0, *sizes]).cumsum(0).int().to(device)
    outs = [
        torch.full((sum(sizes), outputs), torch.nan, dtype=dtype, device=device) for _ in range(2)
    ]
    for one, out in zip((kernels, _REFERENCE), outs, strict=True):
        one.grouped_linear(x.to(dtype), weight.to(dtype), start, out)
    return worst(*outs)


def _drawn(seed: int, device: torch.device) -> Callable[..., Tensor]:
    source = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=source).to(device)


def worst(found: Tensor, expected: Tensor) -> float:
    """The largest error as a share of what the dtype allows; infinite if there is a NaN."""
    allowed = ALLOWED[expected.dtype] * (1 + expected.float().abs())
    errors = (found.float() - expected.float()).abs() / allowed
    return float(errors.nan_to_num(nan=torch.inf).max())
