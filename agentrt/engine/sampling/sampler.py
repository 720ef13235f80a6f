"""The sampler: from logits to tokens, for all rows of a step at once.

A row's randomness is a hash of (seed, position), so a seed gives the same tokens whatever else is
in the batch, and after a preemption.
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

_Column = tuple[float, float, float, float, float]
_GREEDY_COLUMN: _Column = (0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(slots=True)
class SamplingRow:
    """One row to sample a token for.

    Attributes:
        params: Sampling parameters.
        position: Index of the token in the output; seeds the sample.
        prompt: Ids of the prompt, for penalties.
        output: Ids of the output so far, for penalties.
        column: Temperature, top-k, top-p, min-p and a random number; of a greedy row until
            `sample_tokens` has computed them.
    """

    params: SamplingParams
    position: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    column: _Column = _GREEDY_COLUMN

    def without_penalties(self) -> SamplingRow:
        """The same row for logits to which penalties have been applied."""
        return SamplingRow(replace(self.params, repetition_penalty=1.0), self.position)


_GREEDY_ROW = SamplingRow(SamplingParams(), 0)


@dataclass(slots=True)
class SampledToken:
    """The token of one row.

    Attributes:
        token_id: The sampled id; -1 if the row's logits are not numbers.
        logprob: Log-probability with alternatives, if requested.
    """

    token_id: int
    logprob: TokenLogprob | None = None


class SampledTokens:
    """Tokens of all rows, maybe still being sampled on the device.

    Args:
        token_ids: `[rows]` int64.
        logprobs: `[asking rows, vocabulary]` of the rows that request them, or None.
        rows: One per row.
        failed: Error of each row with parameters that cannot be applied; its token is any.

    Attributes:
        token_ids: `[rows]` int64, on the device.
        failed: Error of each row with parameters that cannot be applied.
    """

    __slots__ = ("_logprobs", "_rows", "_transfer", "failed", "token_ids")

    def __init__(
        self,
        token_ids: Tensor,
        logprobs: Tensor | None,
        rows: Sequence[SamplingRow],
        failed: dict[int, Exception],
    ) -> None:
        self.token_ids = token_ids
        self.failed = failed
        self._transfer = PendingTransfer(token_ids)
        self._logprobs = logprobs
        self._rows = rows

    def wait(self) -> list[SampledToken]:
        """Wait for the device; one token per row."""
        tokens = self._transfer.wait().tolist()
        if self._logprobs is None:
            return [SampledToken(token) for token in tokens]
        logprobs = self._token_logprobs(tokens)
        return [SampledToken(token, logprobs.get(row)) for row, token in enumerate(tokens)]

    def _token_logprobs(self, tokens: list[int]) -> dict[int, TokenLogprob]:
        """Log-probabilities of the rows that request them."""
        assert self._logprobs is not None
        asking = [row for row, draw in enumerate(self._rows) if draw.params.logprobs]
        counts = [self._rows[row].params.logprobs for row in asking]
        best = self._logprobs.topk(min(max(counts), self._logprobs.shape[1]))
        values, ids = best.values.tolist(), best.indices.tolist()
        drawn = [max(0, tokens[row]) for row in asking]
        chosen = torch.tensor(drawn, device=self._logprobs.device)
        own = self._logprobs.gather(1, chosen[:, None])[:, 0].tolist()
        found = {}
        for at, (row, count) in enumerate(zip(asking, counts, strict=True)):
            pairs = zip(ids[at][:count], values[at][:count], strict=True)
            top = tuple((token, value) for token, value in pairs if value > -torch.inf)
            found[row] = TokenLogprob(tokens[row], own[at], top)
        return found


def sample_tokens(
    kernels: Kernels, logits: Tensor, rows: Sequence[SamplingRow], bitmask: Tensor | None
) -> SampledTokens:
    """Sample a token for each row.

    Args:
        kernels: Kernel set that samples.
        logits: `[rows, vocabulary]` fp32; penalties change it in place.
        rows: One per row.
        bitmask: `[rows, words]` int32 bits of the allowed tokens, or None if all are.
    """
    rows, failed = _checked_rows(rows, logits)
    logprobs = _logprobs(logits, rows, bitmask)
    token_ids = torch.empty(len(rows), dtype=torch.int64, device=logits.device)
    kernels.sample(logits, bitmask, *_sampling_columns(rows, logits.device), token_ids)
    return SampledTokens(token_ids, logprobs, rows, failed)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing else."""
    text = f"{seed}:{position}".encode()
    return int.from_bytes(blake2b(text, digest_size=7).digest(), "big") / 2.0**56


def unpack_bitmask(bitmask: Tensor, vocabulary: int) -> Tensor:
    """`[rows, words]` int32 bits as `[rows, vocabulary]` bool."""
    bits = torch.arange(32, device=bitmask.device, dtype=torch.int32)
    return (bitmask[:, :, None] >> bits).bitwise_and_(1).bool().flatten(1)[:, :vocabulary]


def _checked_rows(
    rows: Sequence[SamplingRow], logits: Tensor
) -> tuple[Sequence[SamplingRow], dict[int, Exception]]:
    """Apply each row's own parameters; a row that cannot be sampled is greedy instead.

    Returns:
        The rows, and the error of each row that was replaced.
    """
    failed: dict[int, Exception] = {}
    for index, row in enumerate(rows):
        try:
            _apply_penalties(logits, index, row)
            if row.params.temperature != 0:
                row.column = _column(row)
        except Exception as error:  # fails one row only
            failed[index] = error
    if failed:
        rows = [_GREEDY_ROW if index in failed else row for index, row in enumerate(rows)]
    return rows, failed


def _column(row: SamplingRow) -> _Column:
    how = row.params
    limits = float(how.top_k or 0), float(how.top_p), float(how.min_p)
    return float(how.temperature), *limits, uniform(how.seed, row.position)


_Columns = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
_GREEDY: dict[tuple[int, torch.device], _Columns] = {}


def _sampling_columns(rows: Sequence[SamplingRow], device: torch.device) -> _Columns:
    """Temperature, top-k, top-p, min-p and a random number, each `[rows]`."""
    if all(draw.params.temperature == 0 for draw in rows):
        key = len(rows), device
        if key not in _GREEDY:
            _GREEDY[key] = _columns([_GREEDY_COLUMN] * len(rows), device)
        return _GREEDY[key]
    return _columns([draw.column for draw in rows], device)


def _columns(rows: list[_Column], device: torch.device) -> _Columns:
    table = torch.tensor(rows, dtype=torch.float64)
    temperature, top_k, top_p, min_p, numbers = table.t().contiguous().unbind()
    return (
        to_device(temperature, torch.float32, device),
        to_device(top_k, torch.int32, device),
        to_device(top_p, torch.float32, device),
        to_device(min_p, torch.float32, device),
        to_device(numbers, torch.float64, device),
    )


def _logprobs(
    logits: Tensor, sampling_rows: Sequence[SamplingRow], bitmask: Tensor | None
) -> Tensor | None:
    """`[asking rows, vocabulary]` log-probabilities of the distribution that is sampled."""
    asking = [row for row, draw in enumerate(sampling_rows) if draw.params.logprobs]
    if not asking:
        return None
    rows = logits[asking]
    if bitmask is not None:
        rows.masked_fill_(~unpack_bitmask(bitmask[asking], logits.shape[1]), -torch.inf)
    temperatures = [sampling_rows[row].params.temperature or 1.0 for row in asking]
    return (rows / torch.tensor(temperatures, device=logits.device)[:, None]).log_softmax(-1)


def _apply_penalties(logits: Tensor, index: int, row: SamplingRow) -> None:
    params = row.params
    if params.repetition_penalty != 1.0:
        row_logits = logits[index]
        seen = torch.tensor(sorted({*row.prompt, *row.output}), device=row_logits.device)
        values = row_logits[seen]
        scaled = torch.where(
            values > 0, values / params.repetition_penalty, values * params.repetition_penalty
        )
        row_logits[seen] = scaled
    if row.output and (params.presence_penalty != 0.0 or params.frequency_penalty != 0.0):
        row_logits = logits[index]
        output = torch.tensor(row.output, device=row_logits.device)
        tokens, counts = torch.unique(output, return_counts=True)
        row_logits[tokens] -= params.presence_penalty + params.frequency_penalty * counts
