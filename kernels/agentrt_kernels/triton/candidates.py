"""The tokens of a row that a draw may reach: those near enough to the largest, ordered by id.

A row is taken in chunks, a program each, so that few rows keep a whole device busy.
"""

from __future__ import annotations

import triton
import triton.language as tl

DEPTHS = tl.constexpr(16)
NEGLIGIBLE = tl.constexpr(40.0)
"""A token so far below the largest weighs less than what fp32 keeps of the largest."""


@triton.jit
def best_of(temperature, largest, row, chunks, CHUNKS: tl.constexpr):
    """The largest logit of a row, and whether it is drawn from: not if it is greedy or broken."""
    chunk = tl.arange(0, CHUNKS)
    tops = tl.load(largest + row * chunks + chunk, mask=chunk < chunks, other=-float("inf"))
    best = tl.max(tops, 0)
    heat = tl.load(temperature + row)
    return best, (heat != 0.0) & (best != -float("inf")) & (best != float("inf"))


@triton.jit(do_not_specialize=["chunks"])
def measure(
    logits,
    temperature,
    largest,
    counts,
    masses,
    logits_stride,
    vocabulary,
    chunks,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Count and weigh, in a chunk of a row, the tokens within each depth of the largest."""
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    best, drawn = best_of(temperature, largest, row, chunks, CHUNKS)
    if not drawn:
        return
    depth = _depths()
    count = tl.zeros([DEPTHS], tl.int32)
    mass = tl.zeros([DEPTHS], tl.float64)
    for begin in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, vocabulary), BLOCK):
        token = begin + tl.arange(0, BLOCK)
        place = logits + row * logits_stride + token
        below = tl.load(place, mask=token < vocabulary, other=-float("inf")) - best
        near = below[None, :] > -depth[:, None]  # [depths, BLOCK]
        count += tl.sum(near.to(tl.int32), 1)
        weight = tl.exp(below).to(tl.float64)
        mass += tl.sum(tl.where(near, weight[None, :], 0.0), 1)
    at = (row * chunks + chunk) * DEPTHS + tl.arange(0, DEPTHS)
    tl.store(counts + at, count)
    tl.store(masses + at, mass)


@triton.jit(do_not_specialize=["chunks"])
def gather(
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
    logits_stride,
    vocabulary,
    chunks,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Write the candidates of a chunk behind those of the chunks before it.

    Which depth is enough, each program finds from what `measure` left of all chunks.
    """
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    best, drawn = best_of(temperature, largest, row, chunks, CHUNKS)
    if not drawn:
        return
    every = tl.arange(0, CHUNKS)
    place = (row * chunks + every[:, None]) * DEPTHS + tl.arange(0, DEPTHS)[None, :]
    real = (every < chunks)[:, None]
    count = tl.load(counts + place, mask=real, other=0)  # [chunks, depths]
    within = tl.sum(count, 0)
    mass = tl.sum(tl.load(masses + place, mask=real, other=0.0), 0)
    whole = tl.max(mass, 0)
    enough = _enough(
        within,
        mass,
        whole * 1.000001,  # a bound, whatever the rounding
        tl.load(top_k + row),
        tl.load(top_p + row).to(tl.float64),
        tl.load(min_p + row),
        tl.load(uniform + row),
    )
    depth = tl.min(tl.where(enough, _depths(), NEGLIGIBLE), 0)
    # Of two depths that are equal the first, whose counts are the same.
    taken = tl.argmax((_depths() == depth).to(tl.int32), 0)
    mine = tl.arange(0, DEPTHS) == taken
    before = tl.sum(tl.where((every < chunk)[:, None] & mine[None, :], count, 0))
    if chunk == 0:
        tl.store(kept + row, tl.sum(tl.where(mine, within, 0), 0))
        tl.store(total + row, whole)

    token = chunk * CHUNK + tl.arange(0, CHUNK)
    value = tl.load(
        logits + row * logits_stride + token, mask=token < vocabulary, other=-float("inf")
    )
    chosen = (value - best > -depth).to(tl.int32)
    target = row * vocabulary + before + tl.cumsum(chosen, 0) - 1
    tl.store(ids + target, token, mask=chosen == 1)
    tl.store(near + target, value, mask=chosen == 1)


@triton.jit
def _depths():
    """How far below the largest is looked: 1, 2, ... 8, 10, ... 16, 24, 32, 40, 40."""
    step = tl.arange(0, DEPTHS)
    depth = tl.where(step < 8, step + 1, tl.where(step < 12, 2 * step - 6, 8 * step - 72))
    return tl.minimum(depth.to(tl.float32), NEGLIGIBLE)


@triton.jit
def _enough(within, mass, some, k, p, least, where):
    """Whether each depth holds all tokens that may matter, by their count and mass `[depths]`."""
    if k > 0:
        enough = within >= k
    elif p < 1.0:
        enough = mass >= p * some
    elif least > 0.0:
        enough = tl.exp(-_depths()) < least * 0.999999
    else:
        enough = mass > where * some
    return enough
