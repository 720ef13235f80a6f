"""Costs of drafts as shares of a step, learned from the times of steps and of a draft model."""

from __future__ import annotations

from collections.abc import Sequence as Rows

from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import StepModel


class DraftCosts:
    """Costs in the step that is planned, each by a sequence's share of that step.

    They are worked out once a draft is considered: a text without repetition has none.

    Args:
        model: The draft model, or None.
    """

    def __init__(self, model: DraftModel | None) -> None:
        self._model = model
        self._steps = StepModel()
        self._work = (0, 0, 0, 0)
        self._known: tuple[float, float] | None = (0.0, 0.0)

    @property
    def row(self) -> float:
        """Cost of a row more."""
        return self._costs[0]

    @property
    def forward(self) -> float:
        """Cost of a forward of the draft model, shared by all sequences of the step."""
        return self._costs[1]

    def begin_step(self, scheduled: Rows[tuple[Sequence, int]]) -> None:
        """Begin a step without drafts, to which they are added."""
        prefill_tokens = rows = kv_tokens = 0
        for sequence, count in scheduled:
            computed_tokens = sequence.computed_tokens
            kv_tokens += computed_tokens + count
            if computed_tokens < sequence.prompt_tokens:
                prefill_tokens += count
            else:
                rows += count
        self._work = len(scheduled), prefill_tokens, rows, kv_tokens
        self._known = None

    def note_step(self, step: StepRecord, drafting_s: float) -> None:
        """Learn from the time of a step, of which the draft model took `drafting_s`."""
        rows = step.decode_tokens + step.extra_rows
        took_s = step.ended_at_s - step.started_at_s - drafting_s
        self._steps.add_sample(step.prefill_tokens, rows, step.kv_tokens, took_s)

    @property
    def _costs(self) -> tuple[float, float]:
        if self._known is None:
            self._known = self._planned()
        return self._known

    def _planned(self) -> tuple[float, float]:
        sequences, prefill_tokens, rows, kv_tokens = self._work
        time = self._steps.step_time
        step_s = time.step_s(prefill_tokens, rows, kv_tokens)
        if step_s <= 0.0:
            return 0.0, 0.0
        forward_s = 0.0 if self._model is None else self._model.forward_s
        return sequences * time.decode_s / step_s, forward_s / step_s
