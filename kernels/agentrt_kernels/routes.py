"""Routes of tokens to experts in plain torch: what sets without kernels for them compute with.

Letters of the shapes: T tokens, A experts of a token, E experts, W width of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RouteRule:
    """How scores become routes as models are trained.

    Attributes:
        each: A.
        normalizes: Whether a token's weights are divided by their sum.
        rounds: Whether weights are rounded to the dtype of the scores.
    """

    each: int
    normalizes: bool
    rounds: bool


@dataclass(frozen=True, slots=True)
class ExpertOrder:
    """Choices `[T, A]` sorted by expert, those of a token and an expert in their order.

    Choices of no expert come last.

    Attributes:
        tokens: `[T * A]` int64, the token of the choice at each place.
        places: `[T * A]` int64, the place of each choice.
        expert_start: `[E + 1]` int32; the choices of expert `e` are at the places
            `expert_start[e]:expert_start[e + 1]`.
    """

    tokens: Tensor
    places: Tensor
    expert_start: Tensor


@dataclass(frozen=True, slots=True)
class TrainedRoutes:
    """Routes of tokens, and their order.

    Attributes:
        chosen: `[T, A]` int64, experts from the largest weight on.
        shares: `[T, A]` floating, their weights in the sum.
        order: The choices by expert.
    """

    chosen: Tensor
    shares: Tensor
    order: ExpertOrder


def probabilities(scores: Tensor) -> Tensor:
    """Parts `[T, E]`, in fp32, of the router's `scores` `[T, E]`."""
    return scores.softmax(-1, dtype=torch.float32)


def weights_of(shares: Tensor, dtype: torch.dtype, rule: RouteRule) -> Tensor:
    """Weights `[T, A]` with the sum and the precision that the rule asks for.

    Args:
        shares: Probabilities `[T, A]` of a token's experts, fp32.
        dtype: Type of the scores.
        rule: The rule.
    """
    if rule.normalizes:
        shares = shares / shares.sum(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
    return shares.to(dtype) if rule.rounds else shares


def chosen_as_trained(scores: Tensor, rule: RouteRule) -> tuple[Tensor, Tensor]:
    """Experts `[T, A]` with the largest scores, and their weights `[T, A]`.

    Example:
        >>> scores = torch.tensor([[0.0, 3.0, 1.0]])
        >>> chosen, _ = chosen_as_trained(scores, RouteRule(2, normalizes=True, rounds=False))
        >>> chosen.tolist()
        [[1, 2]]
    """
    shares, chosen = probabilities(scores).topk(rule.each, -1)
    return chosen, weights_of(shares, scores.dtype, rule)


class TorchRouting:
    """The operations of a set that concern routes, with torch's own operations."""

    def route(self, scores: Tensor, rule: RouteRule) -> TrainedRoutes:
        """See `Kernels.route`."""
        chosen, shares = chosen_as_trained(scores, rule)
        return TrainedRoutes(chosen, shares, self.sort_choices(chosen, scores.shape[1]))

    def sort_choices(self, chosen: Tensor, experts: int) -> ExpertOrder:
        """See `Kernels.sort_choices`."""
        expert, choice = chosen.flatten().sort(stable=True)
        bounds = torch.arange(experts + 1, device=chosen.device)
        places = torch.empty_like(choice)
        places.scatter_(0, choice, torch.arange(choice.shape[0], device=chosen.device))
        start = torch.searchsorted(expert, bounds, out_int32=True)
        return ExpertOrder(choice // chosen.shape[1], places, start)

    def sum_choices(self, made: Tensor, order: ExpertOrder, shares: Tensor, out: Tensor) -> None:
        """See `Kernels.sum_choices`."""
        parts = made.index_select(0, order.places).view(*shares.shape, made.shape[1])
        out.copy_((parts * shares.float()[:, :, None]).sum(1))
