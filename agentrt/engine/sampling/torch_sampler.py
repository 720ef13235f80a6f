"""Drawing tokens with torch alone, all rows of a step at once: what serves without a compiler."""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.sampling.sampler import allowed
from agentrt_kernels.reference import NEGLIGIBLE


def draw_rows(
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
        logits = logits.masked_fill(~allowed(mask, logits.shape[1]), -torch.inf)
    torch.argmax(logits, -1, out=out)
    broken = logits.amax(-1).isnan()  # a NaN is the largest
    out.masked_fill_(broken, -1)
    hot = ((temperature != 0) & ~broken).nonzero()[:, 0]
    if not hot.shape[0]:
        return
    values = logits[hot] / temperature[hot, None]
    values, ids = values.sort(dim=-1, descending=True, stable=True)  # equals keep their order
    below = values - values[:, :1]
    weights = below.double().exp_().masked_fill_(below <= -NEGLIGIBLE, 0.0)
    place = torch.arange(weights.shape[1], device=weights.device)
    most = torch.where(top_k[hot] > 0, top_k[hot], weights.shape[1])
    weights.masked_fill_(place >= most[:, None], 0.0)
    reached = weights.cumsum(-1)
    shares = top_p[hot, None].double()
    past = (shares < 1) & (reached - weights >= shares * reached[:, -1:]) & (place > 0)
    past |= (weights < min_p[hot, None].double()) & (place > 0)
    weights.masked_fill_(past, 0.0)
    reached = weights.cumsum(-1)
    where = torch.searchsorted(reached, uniform[hot, None] * reached[:, -1:], right=True)
    last = (weights > 0).sum(-1, keepdim=True) - 1
    found = torch.minimum(where, last.clamp_(min=0))
    out[hot] = ids.gather(1, found)[:, 0]
