"""A token for each row: mask, temperature, top-k, top-p, min-p and the draw, without a sort.

`_scale` rewrites the logits and finds the largest of each chunk: all that greedy rows need.
`candidates` keeps the tokens near enough to it to matter (a few of many thousands, as a rule).
`_choose` takes a row of these: it finds each cut, and the draw, as the place in descending order
where a running count or mass passes a target: a search over the bits of a value, four at a time, in
which equal values stay together until their ids decide. Weights are fp32, their sums fp64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.candidates import DEPTHS, best_of, gather, measure
from agentrt_kernels.triton.workspace import Workspace

_CHUNK = 4096
_BLOCK = 512
_BLOCK_CANDIDATES = 512


def sample(
    logits: Tensor,
    mask: Tensor | None,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_p: Tensor,
    uniform: Tensor,
    out: Tensor,
    workspace: Workspace,
) -> None:
    """Fill `out` with token ids.

    Args:
        logits: `[B, V]` fp32, any row stride; overwritten.
        mask: `[B, ceil(V / 32)]` int32, any row stride, or None.
        temperature: `[B]` fp32; 0 takes the largest.
        top_k: `[B]` int32; 0 keeps all.
        top_p: `[B]` fp32; 1 keeps all.
        min_p: `[B]` fp32.
        uniform: `[B]` fp64 in [0, 1).
        out: `[B]` int64.
        workspace: Holds facts about each chunk, and a row's candidates.
    """
    rows, vocabulary = logits.shape
    if rows == 0:
        return
    chunks = triton.cdiv(vocabulary, _CHUNK)
    largest = workspace.take("sample.largest", (rows, chunks), torch.float32)
    first = workspace.take("sample.first", (rows, chunks), torch.int32)
    counts = workspace.take("sample.counts", (rows, chunks, DEPTHS.value), torch.int32)
    masses = workspace.take("sample.masses", (rows, chunks, DEPTHS.value), torch.float64)
    kept = workspace.take("sample.kept", (rows,), torch.int32)
    total = workspace.take("sample.total", (rows,), torch.float64)
    ids = workspace.take("sample.ids", (rows, vocabulary), torch.int32)
    near = workspace.take("sample.near", (rows, vocabulary), torch.float32)
    _scale[(rows, chunks)](
        logits,
        mask,
        temperature,
        largest,
        first,
        logits.stride(0),
        0 if mask is None else mask.stride(0),
        vocabulary,
        chunks,
        CHUNK=_CHUNK,
        num_warps=8,
    )
    every = triton.next_power_of_2(chunks)
    measure[(rows, chunks)](
        logits,
        temperature,
        largest,
        counts,
        masses,
        logits.stride(0),
        vocabulary,
        chunks,
        CHUNKS=every,
        CHUNK=_CHUNK,
        BLOCK=_BLOCK,
        num_warps=8,
    )
    gather[(rows, chunks)](
        logits,
        temperature,
        top_k,
        top_p,
        min_p,
        uniform,
        largest,
        counts,
        masses,
        kept,
        total,
        ids,
        near,
        logits.stride(0),
        vocabulary,
        chunks,
        CHUNKS=every,
        CHUNK=_CHUNK,
        num_warps=8,
    )
    _choose[(rows,)](
        temperature,
        top_k,
        top_p,
        min_p,
        uniform,
        out,
        largest,
        first,
        kept,
        total,
        ids,
        near,
        vocabulary,
        chunks,
        CHUNKS=every,
        BLOCK=_BLOCK_CANDIDATES,
        num_warps=8,
    )


@triton.jit(do_not_specialize=["chunks"])
def _scale(
    logits,
    mask,
    temperature,
    largest,
    first,
    logits_stride,
    mask_stride,
    vocabulary,
    chunks,
    CHUNK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    token = chunk * CHUNK + tl.arange(0, CHUNK)
    real = token < vocabulary
    place = logits + row * logits_stride + token
    value = tl.load(place, mask=real, other=-float("inf"))
    heat = tl.load(temperature + row)
    value = tl.div_rn(value, tl.where(heat == 0.0, 1.0, heat))
    value = tl.where(value == 0.0, 0.0, value)  # -0 and 0 are equals
    if mask is not None:
        bits = tl.load(mask + row * mask_stride + token // 32, mask=real, other=0)
        value = tl.where(((bits >> (token % 32)) & 1) == 1, value, -float("inf"))
    tl.store(place, value, mask=real)
    broken = tl.max((value != value).to(tl.int32), 0) == 1  # such a chunk wins, and holds -1
    best = tl.where(broken, float("inf"), tl.max(value, 0))
    tl.store(largest + row * chunks + chunk, best)
    holder = tl.min(tl.where(real & (value == best), token, 2147483647), 0)
    tl.store(first + row * chunks + chunk, tl.where(broken, -1, holder))


@triton.jit(do_not_specialize=["chunks"])
def _choose(
    temperature,
    top_k,
    top_p,
    min_p,
    uniform,
    out,
    largest,
    first,
    kept_tokens,
    whole,
    all_ids,
    near,
    vocabulary,
    chunks,
    CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    best, drawn_from = best_of(temperature, largest, row, chunks, CHUNKS)
    chunk = tl.arange(0, CHUNKS)
    if not drawn_from:
        tops = tl.load(largest + row * chunks + chunk, mask=chunk < chunks, other=-float("inf"))
        holds = (chunk < chunks) & (tops == best)
        holders = tl.load(first + row * chunks + chunk, mask=holds, other=0)
        greedy = tl.min(tl.where(holds, holders, 2147483647), 0)
        tl.store(out + row, tl.minimum(greedy, vocabulary - 1).to(tl.int64))
        return
    k = tl.load(top_k + row)
    p = tl.load(top_p + row).to(tl.float64)
    least = tl.load(min_p + row)
    where = tl.load(uniform + row)
    values = near + row * vocabulary
    ids = all_ids + row * vocabulary
    total = tl.load(whole + row)
    count = tl.load(kept_tokens + row)

    # The cut: every key above it is kept, and the first `kept` of those at it.
    cut = (where * 0.0).to(tl.int64)
    kept = cut
    drawn = cut
    index = cut
    for phase in range(3):  # top-k, top-p, the draw: one piece of code, which compiles in a third
        if (phase == 2) | ((phase == 0) & (k > 0)) | ((phase == 1) & (p < 1.0)):
            if (phase == 2) & ((k > 0) | (p < 1.0) | (least > 0.0)):
                total = _mass(values, count, best, cut, kept, least, BLOCK)
            target = tl.where(phase == 1, p, where) * total
            target = tl.where(phase == 0, k.to(tl.float64) - 0.5, target)
            found = _reach(values, count, best, target, phase == 0, BLOCK)
            found = tl.maximum(found, cut)
            above, mass, ties = _beyond(values, count, best, found, BLOCK)
            ties = tl.where(found == cut, tl.minimum(ties, kept), ties)
            weight = _weight(found, best).to(tl.float64)
            share = (target - mass) / weight  # of the ties at `found`
            if phase == 0:
                kept = tl.minimum(tl.maximum(k - above, 0), ties)
                total = mass + kept.to(tl.float64) * weight
            elif phase == 1:
                kept = tl.maximum(tl.ceil(share).to(tl.int64), tl.where(above == 0, 1, 0))
                kept = tl.minimum(kept, ties)
            else:
                drawn = found
                index = tl.maximum(tl.minimum(tl.floor(share).to(tl.int64), ties - 1), 0)
            cut = found
    tl.store(out + row, _named(values, ids, count, drawn, index, BLOCK))


@triton.jit
def _candidates(values, begin, count, BLOCK: tl.constexpr):
    """Values of up to BLOCK candidates from the one at `begin` on, and which there are."""
    place = begin + tl.arange(0, BLOCK)
    return tl.load(values + place, mask=place < count, other=-float("inf")), place < count


@triton.jit
def _key(value):
    """An int64 in [0, 2^32) that orders as the fp32 value does; 0 is below every value."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64) + 2147483648


@triton.jit
def _weight(key, best):
    """The weight of the value that has this key; 1 for the key below every value."""
    ordered = (key - 2147483648).to(tl.int32)
    bits = tl.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered)
    weight = tl.exp(bits.to(tl.float32, bitcast=True) - best)
    return tl.where(key == 0, 1.0, weight)


@triton.jit
def _reach(values, count, best, target, counted, BLOCK: tl.constexpr):
    """The largest key whose tokens, with those above, have more than `target` of count or mass.

    0 if all tokens together have not.
    """
    digit = tl.arange(0, 16).to(tl.int64)
    low = (target * 0.0).to(tl.int64)
    for round in range(8):
        bound = low + (digit << (28 - 4 * round))
        reached = tl.zeros([16], tl.float64)
        for begin in range(0, count, BLOCK):
            value, real = _candidates(values, begin, count, BLOCK)
            weight = tl.where(counted, 1.0, tl.exp(value - best)).to(tl.float64)
            reaches = (_key(value)[None, :] >= bound[:, None]) & real[None, :]
            reached += tl.sum(tl.where(reaches, weight[None, :], 0.0), 1)
        low = tl.max(tl.where(reached > target, bound, low), 0)
    return low


@triton.jit
def _beyond(values, count, best, key, BLOCK: tl.constexpr):
    """How many tokens lie above a key, their mass, and how many are at it."""
    above = (best * 0.0).to(tl.int64)
    mass = above.to(tl.float64)
    ties = above
    for begin in range(0, count, BLOCK):
        value, real = _candidates(values, begin, count, BLOCK)
        own = _key(value)
        beyond = (own > key) & real
        above += tl.sum(beyond.to(tl.int64), 0)
        mass += tl.sum(tl.where(beyond, tl.exp(value - best), 0.0).to(tl.float64), 0)
        ties += tl.sum(((own == key) & real).to(tl.int64), 0)
    return above, mass, ties


@triton.jit
def _mass(values, count, best, cut, kept, least, BLOCK: tl.constexpr):
    """The mass of what is kept, of weights of `least` or more."""
    at_cut = _weight(cut, best)
    mass = tl.where(at_cut >= least, kept.to(tl.float64) * at_cut.to(tl.float64), 0.0)
    for begin in range(0, count, BLOCK):
        value, real = _candidates(values, begin, count, BLOCK)
        weight = tl.exp(value - best)
        inside = (_key(value) > cut) & (weight >= least) & real
        mass += tl.sum(tl.where(inside, weight, 0.0).to(tl.float64), 0)
    return mass


@triton.jit
def _named(values, ids, count, key, index, BLOCK: tl.constexpr):
    """The id of the token that is the `index`-th of those at a key."""
    found = index * 0
    before = found
    for begin in range(0, count, BLOCK):
        value, real = _candidates(values, begin, count, BLOCK)
        token = tl.load(ids + begin + tl.arange(0, BLOCK), mask=real, other=0)
        equal = (_key(value) == key) & real
        order = before + tl.cumsum(equal.to(tl.int64), 0) - 1
        found += tl.sum(tl.where(equal & (order == index), token, 0).to(tl.int64), 0)
        before += tl.sum(equal.to(tl.int64), 0)
    return found
