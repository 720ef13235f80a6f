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
from agentrt.engine.sampling.record_table import RecordTable
from agentrt.engine.sequence.sequence import Sequence

_CERTAIN = 1e9
"""Logit that no other reaches."""

_MOST_REQUESTS = 4096
"""Requests of which the output is remembered; that of another one is looked up again."""


class RecordedOutputs:
    """Recorded outputs by request, as a `LogitsProcessor`.

    Args:
        table: Outputs by prompt, for requests of which none was recorded by `record`.
    """

    def __init__(self, table: RecordTable | None = None) -> None:
        self._table = table
        self._texts: dict[RequestId, Rows[int]] = {}

    def record(self, request_id: RequestId, token_ids: Rows[int]) -> None:
        """Let a request write these tokens; it must end with them."""
        self._texts[request_id] = token_ids

    def forget(self, request_id: RequestId) -> None:
        """Forget the output of a request that has ended."""
        self._texts.pop(request_id, None)

    def __call__(self, rows: Rows[DrawRow], logits: Tensor) -> None:
        """Make the recorded token of each row certain; a row without one stays as it is."""
        recorded = []
        for at, one in enumerate(rows):
            text = self._texts.get(one.sequence.request.request_id)
            if text is None and self._table is not None:
                text = self._look_up(self._table, one.sequence)
            if text and one.output_tokens < len(text):
                recorded.append((at, text[one.output_tokens]))
        if recorded:
            at_rows, token_ids = torch.tensor(recorded, device=logits.device).t().unbind()
            logits[at_rows, token_ids] = _CERTAIN

    def _look_up(self, table: RecordTable, sequence: Sequence) -> Rows[int]:
        """The output of a request that writes its first token; () without a record."""
        request = sequence.request
        prompt = sequence.tokens[: sequence.prompt_tokens]
        found = table.find(prompt, request.sampling.seed) or ()
        while len(self._texts) >= _MOST_REQUESTS:
            del self._texts[next(iter(self._texts))]
        self._texts[request.request_id] = found
        return found
