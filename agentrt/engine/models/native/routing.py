"""Routing: which experts a token takes, and with which weights.

Every way is a pure function of the router's scores, without a look at the device's results, so that
it can be captured in a graph.

Letters of the shapes: T tokens, A experts per token, E experts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import ExpertShape
from agentrt.engine.ops.experts import Routes
from agentrt_kernels.routes import RouteRule, chosen_as_trained, probabilities, weights_of


class Routing(Protocol):
    """Decides which experts tokens take."""

    def __call__(self, scores: Tensor, shape: ExpertShape) -> Routes:
        """Routes of T tokens by the router's `scores` `[T, E]`, which are logits."""
        ...


def trained(scores: Tensor, shape: ExpertShape) -> Routes:
    """The experts with the largest scores, weighted as the model was trained."""
    return Routes(*chosen_as_trained(scores, rule_of(shape)))


@dataclass(frozen=True, slots=True)
class Threshold:
    """As trained, without experts of little weight; the sum of a token's weights stays.

    Attributes:
        least: Part of a token's weights from which an expert is kept; the largest always is.
    """

    least: float

    def __call__(self, scores: Tensor, shape: ExpertShape) -> Routes:
        """See `Routing`."""
        shares, chosen = probabilities(scores).topk(shape.experts_per_token, -1)
        whole = shares.sum(-1, keepdim=True)
        kept = shares >= self.least * whole
        kept[:, 0] = True
        shares = shares.where(kept, 0.0)
        shares = shares * (whole / shares.sum(-1, keepdim=True))
        return Routes(chosen.where(kept, shape.count), _finished(shares, scores, shape))


@dataclass(frozen=True, slots=True)
class Capacity:
    """No expert takes more than its part of a forward's tokens; earlier rows come first.

    Attributes:
        factor: An expert's capacity: this factor of what it would take if all took equally much,
            rounded up.
        overflow: Where a token goes whose expert is full: to the best expert that still has room,
            with the weight it has there; or nowhere, so that its other weights stay as they were.
    """

    factor: float
    overflow: Literal["next", "drop"] = "next"

    def tokens(self, rows: int, shape: ExpertShape) -> int:
        """Tokens that an expert takes of a forward of so many rows."""
        return math.ceil(self.factor * rows * shape.experts_per_token / shape.count)

    def __call__(self, scores: Tensor, shape: ExpertShape) -> Routes:
        """See `Routing`."""
        each, capacity = shape.experts_per_token, self.tokens(scores.shape[0], shape)
        parts = probabilities(scores)
        most = each if self.overflow == "drop" else shape.count
        ranked = parts.topk(most, -1).indices  # [T, most]
        kept = _within_capacity(ranked, each, capacity, shape.count)
        if self.overflow == "drop":
            shares = _finished(parts.gather(-1, ranked), scores, shape)
            return Routes(ranked.where(kept, shape.count), shares.where(kept, 0))
        first = (~kept).to(torch.uint8).argsort(dim=-1, stable=True)[:, :each]
        chosen, kept = ranked.gather(-1, first), kept.gather(-1, first)
        shares = parts.gather(-1, chosen).where(kept, 0.0)
        return Routes(chosen.where(kept, shape.count), _finished(shares, scores, shape))


def _within_capacity(ranked: Tensor, each: int, capacity: int, experts: int) -> Tensor:
    """Whether each choice `[T, most]` is taken, the first of all tokens before their second."""
    rows, most = ranked.shape
    used = ranked.new_zeros(experts)
    taken = ranked.new_zeros(rows)
    kept = torch.zeros_like(ranked, dtype=torch.bool)
    for rank in range(most):
        wanted = ranked[:, rank]
        wants = taken < each
        asked = used.new_zeros((rows, experts)).scatter_(1, wanted[:, None], wants.long()[:, None])
        place = used[wanted] + asked.cumsum(0).gather(1, wanted[:, None])[:, 0]
        accepted = wants & (place <= capacity)
        kept[:, rank] = accepted
        taken += accepted
        used += asked.mul_(accepted[:, None]).sum(0)
    return kept


def rule_of(shape: ExpertShape) -> RouteRule:
    """How the model was trained to route."""
    return RouteRule(shape.experts_per_token, shape.normalizes_weights, shape.rounds_weights)


def _finished(shares: Tensor, scores: Tensor, shape: ExpertShape) -> Tensor:
    """Weights with the sum and the precision with which the model was trained."""
    return weights_of(shares, scores.dtype, rule_of(shape))
