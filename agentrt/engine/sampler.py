"""From logits to tokens.

Each row is picked by itself: its randomness is a hash of (seed, position), so the same seed gives
the same tokens whatever else is in the batch, and after a preemption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import torch
from torch import Tensor

from agentrt.backend import TokenLogprob
from agentrt.sampling import Sampling

_NEGLIGIBLE = 40.0


@dataclass(frozen=True, slots=True)
class Draw:
    """One row to pick a token for.

    Attributes:
        sampling: How.
        position: Index of the token in the output, which seeds the draw.
        prompt: Ids of the prompt, for penalties.
        output: Ids produced so far, for penalties.
    """

    sampling: Sampling
    position: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()

    def again(self) -> Draw:
        """The same draw from logits that are penalised already."""
        return Draw(replace(self.sampling, repetition_penalty=1.0), self.position)


@dataclass(frozen=True, slots=True)
class Picked:
    """The token of one row.

    Attributes:
        token_id: It.
        logprob: With alternatives, where they were asked for.
    """

    token_id: int
    logprob: TokenLogprob | None = None


def pick(logits: Tensor, draws: Sequence[Draw], allowed: Tensor | None) -> list[Picked]:
    """A token for each row.

    Args:
        logits: `[rows, vocabulary]` fp32; changed in place.
        draws: One a row.
        allowed: `[rows, vocabulary]` bool of the tokens that may come, or None when all may.
    """
    for row, draw in zip(logits, draws, strict=True):
        _penalise(row, draw)
    if allowed is not None:
        logits.masked_fill_(~allowed, -torch.inf)
    if all(_is_plain(draw.sampling) for draw in draws):
        return [Picked(token) for token in logits.argmax(-1).tolist()]
    return [_pick_row(row, draw) for row, draw in zip(logits, draws, strict=True)]


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing else."""
    text = f"{seed}:{position}".encode()
    return int.from_bytes(blake2b(text, digest_size=7).digest(), "big") / 2.0**56


def _is_plain(sampling: Sampling) -> bool:
    return sampling.temperature == 0 and sampling.logprobs == 0


def _pick_row(row: Tensor, draw: Draw) -> Picked:
    """`row`: `[vocabulary]`."""
    how = draw.sampling
    if how.temperature > 0:
        row = row / how.temperature
    token = int(row.argmax()) if how.temperature == 0 else _sample(row, draw)
    if how.logprobs == 0:
        return Picked(token)
    logprobs = row.log_softmax(-1)
    best = logprobs.topk(min(how.logprobs, logprobs.shape[0]))
    top = tuple(
        (index, value)
        for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        if value > -torch.inf
    )
    return Picked(token, TokenLogprob(token, float(logprobs[token]), top))


def _sample(row: Tensor, draw: Draw) -> int:
    """Top-k, then top-p, then min-p, then the inverse of the distribution function."""
    how = draw.sampling
    # In double precision, where what is e^-40 times as likely as the best does not count; equal
    # values keep the order of their ids.
    near = (row > row.max() - _NEGLIGIBLE).nonzero()[:, 0]
    values, order = row[near].double().sort(descending=True, stable=True)
    ids = near[order]
    weights = values.softmax(-1)
    keep = weights.shape[0]
    if how.top_k:
        keep = min(keep, how.top_k)
    if how.top_p < 1:
        weights = weights[:keep] / weights[:keep].sum()
        before = weights.cumsum(-1) - weights
        keep = max(1, int((before < how.top_p).sum()))
    weights = weights[:keep]
    if how.min_p > 0:
        weights = weights[weights >= how.min_p * weights[0]]
    total = weights.cumsum(-1)
    where = uniform(how.seed, draw.position) * float(total[-1])
    index = int(
        torch.searchsorted(
            total, torch.tensor(where, dtype=total.dtype, device=total.device), right=True
        )
    )
    return int(ids[min(index, weights.shape[0] - 1)])


def _penalise(row: Tensor, draw: Draw) -> None:
    how = draw.sampling
    if how.repetition_penalty != 1.0:
        seen = torch.tensor(sorted({*draw.prompt, *draw.output}), device=row.device)
        values = row[seen]
        scaled = torch.where(
            values > 0, values / how.repetition_penalty, values * how.repetition_penalty
        )
        row[seen] = scaled
    if draw.output and (how.presence_penalty != 0.0 or how.frequency_penalty != 0.0):
        made = torch.tensor(draw.output, device=row.device)
        tokens, counts = torch.unique(made, return_counts=True)
        row[tokens] -= how.presence_penalty + how.frequency_penalty * counts
