"""Routes of tokens to experts: how far they are from the reference, and work to time.

Letters of the shapes: T tokens, A experts of a token, E experts, W width of a row.
"""

from __future__ import annotations

import torch

from agentrt_kernels.check.difference import worst
from agentrt_kernels.check.work import Work
from agentrt_kernels.contract import Kernels
from agentrt_kernels.reference import Reference
from agentrt_kernels.routes import ExpertOrder, RouteRule, TorchRouting


def route_difference(
    kernels: Kernels,
    tokens: int,
    experts: int,
    rule: RouteRule,
    dtype: torch.dtype,
    device: torch.device,
) -> float:
    """Routes of scores of which no two are equal, their order, and that of choices of none too.

    Args:
        kernels: The set.
        tokens: T.
        experts: E.
        rule: How scores become routes.
        dtype: Type of the scores, which are whole numbers over 16.
        device: Where.

    Returns:
        The largest error of a weight as a share of what is allowed; infinite if an expert or a
        place is another.
    """
    source = torch.Generator().manual_seed(tokens + experts)
    scores = torch.rand(tokens, experts, generator=source).argsort(1).to(device, dtype) / 16
    found, expected = (one.route(scores, rule) for one in (kernels, Reference()))
    if not torch.equal(found.chosen, expected.chosen) or not _same(found.order, expected.order):
        return torch.inf
    some = torch.randint(0, experts + 1, found.chosen.shape, generator=source).to(device)
    orders = [one.sort_choices(some, experts) for one in (kernels, Reference())]
    if not _same(*orders):
        return torch.inf
    return worst(found.shares.to(dtype), expected.shares.to(dtype))


def sum_difference(
    kernels: Kernels, tokens: int, each: int, width: int, dtype: torch.dtype, device: torch.device
) -> float:
    """Weighted sums of the results of `each` experts a token; see `difference`."""
    source = torch.Generator().manual_seed(tokens + width)
    chosen = torch.randint(0, 9, (tokens, each), generator=source).to(device)
    order = Reference().sort_choices(chosen, 8)
    made = torch.randn(tokens * each, width + 8, generator=source).to(device, dtype)[:, :width]
    shares = torch.rand(tokens, each, generator=source).to(device)
    outs = [torch.full((tokens, width), torch.nan, dtype=dtype, device=device) for _ in range(2)]
    for one, out in zip((kernels, Reference()), outs, strict=True):
        one.sum_choices(made, order, shares, out)
    return worst(*outs)


def routing_work(
    tokens: int, experts: int, each: int, device: torch.device, *, by_torch: bool = False
) -> Work:
    """Routes of tokens and the order of their choices, by the set or by torch's operations."""
    scores = torch.randn(tokens, experts, device=device).bfloat16()
    rule, plain = RouteRule(each, normalizes=True, rounds=True), TorchRouting()

    def call(kernels: Kernels, at: int) -> None:
        (plain if by_torch else kernels).route(scores, rule)

    moved = scores.nbytes + tokens * each * (8 + 4 + 8 + 8) + 4 * (experts + 1)
    name = f"{tokens} tokens to {each} of {experts} experts" + (" by torch" if by_torch else "")
    return Work("route", name, call, 1, moved, 0)


def sum_work(tokens: int, each: int, width: int, dtype: torch.dtype, device: torch.device) -> Work:
    """Weighted sums of the results of experts."""
    made = torch.randn(tokens * each, width, device=device).to(dtype)
    out, shares = torch.empty_like(made[:tokens]), torch.rand(tokens, each, device=device)
    order = TorchRouting().sort_choices(torch.randint(0, 8, (tokens, each), device=device), 8)

    def call(kernels: Kernels, at: int) -> None:
        kernels.sum_choices(made, order, shares, out)

    moved = made.nbytes + out.nbytes + 8 * tokens * each
    return Work("weighted_sum", f"{tokens} x {each} x {width}", call, 1, moved, 0)


def _same(one: ExpertOrder, other: ExpertOrder) -> bool:
    return (
        torch.equal(one.tokens, other.tokens)
        and torch.equal(one.places, other.places)
        and torch.equal(one.expert_start, other.expert_start)
    )
