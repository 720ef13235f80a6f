"""Sampler in torch alone, all rows of a step at once: serves where no compiler is at hand."""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.sampling.sampler import unpack_bitmask
from agentrt_kernels.reference import NEGLIGIBLE


def sample_rows(
    logits: Tensor,
    mask: Tensor | None,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_p: Tensor,
    uniform: Tensor,
    out: Tensor,
) -> None:
    """See `Kernels.sample`."""
    if mask is not None:
        logits = logits.masked_fill(~unpack_bitmask(mask, logits.shape[1]), -torch.inf)
    torch.argmax(logits, -1, out=out)
    broken = logits.amax(-1).isnan()  # a NaN is the largest
    out.masked_fill_(broken, -1)
    sampled = ((temperature != 0) & ~broken).nonzero()[:, 0]
    if not sampled.shape[0]:
        return
    values = logits[sampled] / temperature[sampled, None]
    values, ids = values.sort(dim=-1, descending=True, stable=True)  # ties keep their order
    below = values - values[:, :1]
    weights = below.double().exp_().masked_fill_(below <= -NEGLIGIBLE, 0.0)
    rank = torch.arange(weights.shape[1], device=weights.device)
    limit = torch.where(top_k[sampled] > 0, top_k[sampled], weights.shape[1])
    weights.masked_fill_(rank >= limit[:, None], 0.0)
    reached = weights.cumsum(-1)
    shares = top_p[sampled, None].double()
    past = (shares < 1) & (reached - weights >= shares * reached[:, -1:]) & (rank > 0)
    past |= (weights < min_p[sampled, None].double()) & (rank > 0)
    weights.masked_fill_(past, 0.0)
    reached = weights.cumsum(-1)
    where = torch.searchsorted(reached, uniform[sampled, None] * reached[:, -1:], right=True)
    last = (weights > 0).sum(-1, keepdim=True) - 1
    found = torch.minimum(where, last.clamp_(min=0))
    out[sampled] = ids.gather(1, found)[:, 0]
