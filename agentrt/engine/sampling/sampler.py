"""From logits to tokens, for all rows of a step at once.

A row's randomness is a hash of (seed, position), so the same seed gives the same tokens whatever
else is in the batch, and after a preemption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import torch
from torch import Tensor

from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.kv.transfer import PendingTransfer, to_device
from agentrt.protocol.step_output import TokenLogprob
from agentrt_kernels.contract import Kernels


@dataclass(slots=True)
class SamplingRow:
    """One row to pick a token for.

    Attributes:
        sampling: How.
        position: Index of the token in the output, which seeds the draw.
        prompt: Ids of the prompt, for penalties.
        output: Ids produced so far, for penalties.
    """

    sampling: SamplingParams
    position: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()

    def again(self) -> SamplingRow:
        """The same draw from logits that are penalised already."""
        return SamplingRow(replace(self.sampling, repetition_penalty=1.0), self.position)


@dataclass(slots=True)
class SampledToken:
    """The token of one row.

    Attributes:
        token_id: It; -1 where the row's logits are not numbers.
        logprob: With alternatives, where they were asked for.
    """

    token_id: int
    logprob: TokenLogprob | None = None


class SampledTokens:
    """Tokens of all rows, maybe still being drawn on the device.

    Args:
        token_ids: `[rows]` int64.
        logprobs: `[asking rows, vocabulary]` of the rows that ask for them, or None.
        draws: One a row.

    Attributes:
        token_ids: `[rows]` int64, on the device.
    """

    __slots__ = ("_arriving", "_draws", "_logprobs", "token_ids")

    def __init__(
        self, token_ids: Tensor, logprobs: Tensor | None, draws: Sequence[SamplingRow]
    ) -> None:
        self.token_ids = token_ids
        self._arriving = PendingTransfer(token_ids)
        self._logprobs = logprobs
        self._draws = draws

    def wait(self) -> list[SampledToken]:
        """One a row; waits for the device."""
        tokens = self._arriving.wait().tolist()
        if self._logprobs is None:
            return [SampledToken(token) for token in tokens]
        told = self._told(tokens)
        return [SampledToken(token, told.get(row)) for row, token in enumerate(tokens)]

    def _told(self, tokens: list[int]) -> dict[int, TokenLogprob]:
        """What is told of each row that asks."""
        assert self._logprobs is not None
        asking = [row for row, draw in enumerate(self._draws) if draw.sampling.logprobs]
        counts = [self._draws[row].sampling.logprobs for row in asking]
        best = self._logprobs.topk(min(max(counts), self._logprobs.shape[1]))
        values, ids = best.values.tolist(), best.indices.tolist()
        drawn = [max(0, tokens[row]) for row in asking]
        chosen = torch.tensor(drawn, device=self._logprobs.device)
        own = self._logprobs.gather(1, chosen[:, None])[:, 0].tolist()
        told = {}
        for at, (row, count) in enumerate(zip(asking, counts, strict=True)):
            pairs = zip(ids[at][:count], values[at][:count], strict=True)
            top = tuple((token, value) for token, value in pairs if value > -torch.inf)
            told[row] = TokenLogprob(tokens[row], own[at], top)
        return told


def pick(
    kernels: Kernels, logits: Tensor, draws: Sequence[SamplingRow], mask: Tensor | None
) -> SampledTokens:
    """A token for each row.

    Args:
        kernels: What draws.
        logits: `[rows, vocabulary]` fp32; changed in place by penalties.
        draws: One a row.
        mask: `[rows, words]` int32 bits of the tokens that may come, or None when all may.
    """
    for row, draw in enumerate(draws):
        _penalise(logits, row, draw)
    logprobs = _logprobs(logits, draws, mask)
    token_ids = torch.empty(len(draws), dtype=torch.int64, device=logits.device)
    kernels.sample(logits, mask, *_settings(draws, logits.device), token_ids)
    return SampledTokens(token_ids, logprobs, draws)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing else."""
    text = f"{seed}:{position}".encode()
    return int.from_bytes(blake2b(text, digest_size=7).digest(), "big") / 2.0**56


def allowed(mask: Tensor, vocabulary: int) -> Tensor:
    """`[rows, words]` int32 bits as `[rows, vocabulary]` bool."""
    bits = torch.arange(32, device=mask.device, dtype=torch.int32)
    return (mask[:, :, None] >> bits).bitwise_and_(1).bool().flatten(1)[:, :vocabulary]


_Columns = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
_GREEDY: dict[tuple[int, torch.device], _Columns] = {}


def _settings(draws: Sequence[SamplingRow], device: torch.device) -> _Columns:
    """Temperature, top-k, top-p, min-p and a number to draw with, each `[rows]`."""
    if all(draw.sampling.temperature == 0 for draw in draws):
        key = len(draws), device
        if key not in _GREEDY:
            _GREEDY[key] = _columns([(0.0, 0, 1.0, 0.0, 0.0)] * len(draws), device)
        return _GREEDY[key]
    return _columns(
        [
            (how.temperature, how.top_k or 0, how.top_p, how.min_p, uniform(how.seed, position))
            for how, position in ((draw.sampling, draw.position) for draw in draws)
        ],
        device,
    )


def _columns(rows: list[tuple[float, int, float, float, float]], device: torch.device) -> _Columns:
    table = torch.tensor(rows, dtype=torch.float64)
    temperature, top_k, top_p, min_p, numbers = table.t().contiguous().unbind()
    return (
        to_device(temperature, torch.float32, device),
        to_device(top_k, torch.int32, device),
        to_device(top_p, torch.float32, device),
        to_device(min_p, torch.float32, device),
        to_device(numbers, torch.float64, device),
    )


def _logprobs(logits: Tensor, draws: Sequence[SamplingRow], mask: Tensor | None) -> Tensor | None:
    """`[asking rows, vocabulary]` of the distribution that is drawn from."""
    asking = [row for row, draw in enumerate(draws) if draw.sampling.logprobs]
    if not asking:
        return None
    rows = logits[asking]
    if mask is not None:
        rows.masked_fill_(~allowed(mask[asking], logits.shape[1]), -torch.inf)
    heats = [draws[row].sampling.temperature or 1.0 for row in asking]
    return (rows / torch.tensor(heats, device=logits.device)[:, None]).log_softmax(-1)


def _penalise(logits: Tensor, at: int, draw: SamplingRow) -> None:
    how = draw.sampling
    if how.repetition_penalty != 1.0:
        row = logits[at]
        seen = torch.tensor(sorted({*draw.prompt, *draw.output}), device=row.device)
        values = row[seen]
        scaled = torch.where(
            values > 0, values / how.repetition_penalty, values * how.repetition_penalty
        )
        row[seen] = scaled
    if draw.output and (how.presence_penalty != 0.0 or how.frequency_penalty != 0.0):
        row = logits[at]
        made = torch.tensor(draw.output, device=row.device)
        tokens, counts = torch.unique(made, return_counts=True)
        row[tokens] -= how.presence_penalty + how.frequency_penalty * counts
