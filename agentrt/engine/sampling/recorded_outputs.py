"""Recorded outputs in place of drawn ones, for replays: the forward is real, the text is given.

Random weights never repeat a text. A replay with them takes its tokens from a record, so that
drafts are accepted as often as they agree with that text.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch
from torch import Tensor

from agentrt.base.ids import RequestId
from agentrt.engine.sampling.draw_rows import DrawRow

_CERTAIN = 1e9
"""Logit that no other reaches."""


class RecordedOutputs:
    """Recorded outputs by request, as a `LogitsProcessor`."""

    def __init__(self) -> None:
        self._texts: dict[RequestId, Rows[int]] = {}

    def record(self, request_id: RequestId, token_ids: Rows[int]) -> None:
        """Let a request write these tokens; it must end with them."""
        self._texts[request_id] = token_ids

    def forget(self, request_id: RequestId) -> None:
        """Forget the output of a request that has ended."""
        self._texts.pop(request_id, None)

    def __call__(self, rows: Rows[DrawRow], logits: Tensor) -> None:
        """Make the recorded token of each row certain; a row without one stays as it is."""
        recorded = [
            (at, text[one.output_tokens])
            for at, one in enumerate(rows)
            if (text := self._texts.get(one.sequence.request.request_id)) is not None
        ]
        if recorded:
            at, token_ids = torch.tensor(recorded, device=logits.device).t().unbind()
            logits[at, token_ids] = _CERTAIN
