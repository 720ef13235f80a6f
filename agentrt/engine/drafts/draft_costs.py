"""Costs of draft tokens as shares of what an accepted one saves, learned from the times of steps.

An accepted token saves its sequence a step: its share of a later step, in which no prompt is
computed. A row costs what it adds to the step at hand, behind all rows that this one has already.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.drafts.step_times import CUDA_ROW_SHARE, ROW_SHARE, StepTimes
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import StepRecord

MARGIN = 1.25
"""Gain that is wanted for each cost: both are estimates."""

LEAST_COST = 0.05
"""Cost of a row however cheap it seems, so that a source that always fails ends."""

_LOOKUP_SMOOTHING = 0.1
_WAIT_SMOOTHING = 0.1
_PLAIN_STEPS = 4
"""One of so many steps without drafts and prompts is learned from: they are all alike."""


class DraftCosts:
    """Costs in the step that is planned.

    They are worked out once a draft is considered: a text without repetition has none.

    Args:
        model: The draft model, or None.
        on_cuda: Whether steps are those of a GPU.
    """

    def __init__(self, model: DraftModel | None, *, on_cuda: bool = False) -> None:
        self._model = model
        self._times = StepTimes(CUDA_ROW_SHARE if on_cuda else ROW_SHARE)
        self._lookup_s = self._wait_s = 0.0
        self._plain_steps = 0
        self._work = (0, 0, 0)
        self._saved_s: float | None = None

    @property
    def lookup(self) -> float:
        """Cost of a look-up."""
        return self._lookup_s / self._saved_token_s if self._saved_token_s > 0.0 else 0.0

    @property
    def wait(self) -> float:
        """Cost of a step that is launched only when the tokens of the last one are known."""
        return MARGIN * self._wait_s / self._saved_token_s if self._saved_token_s > 0.0 else 0.0

    @property
    def forward(self) -> float:
        """Cost of a forward of the draft model, shared by all sequences of the step."""
        if self._model is None or self._saved_token_s <= 0.0:
            return 0.0
        return MARGIN * self._model.forward_s / (self._saved_token_s * max(1, self._work[0]))

    def row(self, draft_rows: int) -> float:
        """Cost of a row behind so many of the step's drafts."""
        saved_s = self._saved_token_s
        if saved_s <= 0.0:
            return LEAST_COST
        row_s = self._times.draft_row_s(self._work[1] + draft_rows)
        return max(LEAST_COST, MARGIN * row_s / saved_s)

    def begin_step(self, scheduled: Rows[tuple[Sequence, int]]) -> None:
        """Begin a step without drafts, to which they are added."""
        rows = kv_tokens = 0
        for sequence, count in scheduled:
            kv_tokens += sequence.computed_tokens + count
            rows += count
        self._work = len(scheduled), rows, kv_tokens
        self._saved_s = None

    def note_step(self, step: StepRecord, draft_rows: int, drafting_s: float) -> None:
        """Learn from the time of a step, of which the draft model took `drafting_s`."""
        if not draft_rows and not step.prefill_tokens:
            self._plain_steps += 1
            if self._plain_steps % _PLAIN_STEPS != 1:
                return
        rows = step.prefill_tokens + step.decode_tokens + step.extra_rows
        took_s = step.ended_at_s - step.started_at_s - drafting_s
        self._times.add(rows, step.kv_tokens, draft_rows, took_s)

    def note_lookups(self, sequences: int, took_s: float) -> None:
        """Learn from the time in which the drafts of so many sequences were looked up."""
        self._lookup_s += _LOOKUP_SMOOTHING * (took_s / sequences - self._lookup_s)

    def note_wait(self, waited_s: float) -> None:
        """Learn from a step before which the device waited so long."""
        self._wait_s += _WAIT_SMOOTHING * (waited_s - self._wait_s)

    @property
    def _saved_token_s(self) -> float:
        """Seconds that an accepted token saves: a sequence's share of a step of one row each."""
        if self._saved_s is None:
            sequences, _, kv_tokens = self._work
            self._saved_s = self._times.step_s(sequences, kv_tokens) / max(1, sequences)
        return self._saved_s
