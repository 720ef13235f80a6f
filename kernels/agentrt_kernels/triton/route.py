"""Routes of a few tokens, and their order by expert, in one launch of one program.

Short: nothing but launches would take its time. All choices are sorted in registers by keys, which
hold the expert and, below it, the number of the choice.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.routes import ExpertOrder, RouteRule, TrainedRoutes
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs

MOST_CHOICES = 1024
"""Choices that one program sorts, rounded up."""
_MOST_SCORES = 8192
_COUNTED = 8192
"""Comparisons at a time by which starts are counted."""
_TINY: tl.constexpr = tl.constexpr(1.1754943508222875e-38)


def sorts(tokens: int, each: int) -> bool:
    """Whether one program sorts the choices of so many tokens."""
    return _token_block(tokens) * _padded(each) <= MOST_CHOICES


def routes(tokens: int, each: int, experts: int) -> bool:
    """Whether one program routes so many tokens."""
    return sorts(tokens, each) and _token_block(tokens) * _padded(experts) <= _MOST_SCORES


def route(scores: Tensor, rule: RouteRule) -> TrainedRoutes:
    """The experts with the largest scores, the first of equals, and their order.

    Args:
        scores: `[T, E]`, any row stride; sizes that `routes`.
        rule: How many, and what their weights are.
    """
    tokens, experts = scores.shape
    chosen = torch.empty((tokens, rule.each), dtype=torch.int64, device=scores.device)
    shares = torch.empty((tokens, rule.each), dtype=torch.float32, device=scores.device)
    order = _launched(scores, chosen, shares, experts, rule)
    return TrainedRoutes(chosen, shares, order)


def sort_choices(chosen: Tensor, experts: int) -> ExpertOrder:
    """The order of choices `[T, A]` int64, dense, of sizes that `sorts`."""
    return _launched(None, chosen, None, experts, RouteRule(chosen.shape[1], False, False))


def _launched(
    scores: Tensor | None, chosen: Tensor, shares: Tensor | None, experts: int, rule: RouteRule
) -> ExpertOrder:
    tokens, each = chosen.shape
    tokens_padded, each_padded, experts_padded = (
        _token_block(tokens),
        _padded(each),
        _padded(experts),
    )
    choices = tokens_padded * each_padded
    both = torch.empty((2, tokens * each), dtype=torch.int64, device=chosen.device)
    start = torch.empty(experts + 1, dtype=torch.int32, device=chosen.device)
    largest = max(choices, tokens_padded * experts_padded if scores is not None else 0)
    _route[(1,)](
        scores,
        chosen,
        shares,
        both[0],
        both[1],
        start,
        0 if scores is None else scores.stride(0),
        tokens,
        experts,
        A=each,
        NORMALIZES=rule.normalizes,
        ROUNDS=rule.rounds,
        BLOCK_T=tokens_padded,
        BLOCK_A=each_padded,
        BLOCK_E=experts_padded,
        BLOCK_S=max(1, min(_padded(experts + 1), _COUNTED // choices)),
        num_warps=4 if largest <= 2048 else 8,
        **overlapped(chosen.device),
    )
    return ExpertOrder(both[0], both[1], start)


@triton.jit(do_not_specialize=["tokens", "experts"])
def _route(
    scores,
    chosen,
    shares,
    tokens_out,
    places_out,
    expert_start,
    scores_stride,
    tokens,
    experts,
    A: tl.constexpr,
    NORMALIZES: tl.constexpr,
    ROUNDS: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_S: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    token = tl.arange(0, BLOCK_T)
    rank = tl.arange(0, BLOCK_A)
    there = (token < tokens)[:, None] & (rank < A)[None, :]
    choice = token[:, None] * A + rank[None, :]
    if scores is not None:
        picked, weight = _best(scores, scores_stride, token, tokens, experts, rank, A, BLOCK_E)
        if NORMALIZES:
            weight /= tl.maximum(tl.sum(weight, 1), _TINY)[:, None]
        if ROUNDS:
            weight = weight.to(scores.dtype.element_ty).to(tl.float32)
        tl.store(chosen + choice, picked.to(tl.int64), mask=there)
        tl.store(shares + choice, weight, mask=there)
    else:
        picked = tl.load(chosen + choice, mask=there, other=0).to(tl.int32)

    CHOICES: tl.constexpr = BLOCK_T * BLOCK_A
    last = (experts + 1) * CHOICES  # behind those of no expert
    keys = tl.where(there, picked * CHOICES + choice, last).reshape([CHOICES])
    for first in range(0, experts + 1, BLOCK_S):
        bound = first + tl.arange(0, BLOCK_S)
        before = tl.sum((keys[None, :] < bound[:, None] * CHOICES).to(tl.int32), 1)
        tl.store(expert_start + bound, before, mask=bound <= experts)
    keys = tl.sort(keys)
    place = tl.arange(0, CHOICES)
    which = keys % CHOICES
    inside = place < tokens * A
    tl.store(tokens_out + place, (which // A).to(tl.int64), mask=inside)
    tl.store(places_out + which, place.to(tl.int64), mask=inside)


@triton.jit
def _best(
    scores, scores_stride, token, tokens, experts, rank, A: tl.constexpr, BLOCK_E: tl.constexpr
):
    """The experts of each token with the largest probabilities, and these, `[T, A]` each.

    A row with a score that is no number has weights that are none, and some experts all the same.
    """
    expert = tl.arange(0, BLOCK_E)
    real = (expert < experts)[None, :]
    row = scores + token.to(tl.int64)[:, None] * scores_stride + expert[None, :]
    score = tl.load(row, mask=real & (token < tokens)[:, None], other=0.0).to(tl.float32)
    score = tl.where(real, score, -float("inf"))
    raised = tl.exp(score - tl.max(score, 1)[:, None])
    share = raised / tl.sum(raised, 1)[:, None]
    left = tl.where(real, tl.where(share == share, share, 0.0), -1.0)
    picked = tl.zeros([token.shape[0], rank.shape[0]], tl.int32)
    weight = tl.zeros([token.shape[0], rank.shape[0]], tl.float32)
    for at in range(A):
        one = tl.argmax(left, 1)
        mine = expert[None, :] == one[:, None]
        value = tl.sum(tl.where(mine, share, 0.0), 1)
        here = (rank == at)[None, :]
        picked = tl.where(here, one[:, None], picked)
        weight = tl.where(here, value[:, None], weight)
        left = tl.where(mine, -2.0, left)
    return picked, weight


def _token_block(tokens: int) -> int:
    """A power of four that holds the tokens: few, since each takes a while to compile."""
    return int(4 ** (((tokens - 1).bit_length() + 1) // 2))


def _padded(count: int) -> int:
    return int(triton.next_power_of_2(count))
