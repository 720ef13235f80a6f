"""Costs of drafts as shares of a step, learned from the times of steps and of a draft model."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import replace

from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import StepModel


class DraftCosts:
    """Costs in the step that is planned, each by a sequence's share of that step.

    Args:
        model: The draft model, or None.

    Attributes:
        row: Cost of a row more.
        forward: Cost of a forward of the draft model, shared by all sequences of the step.
    """

    def __init__(self, model: DraftModel | None) -> None:
        self._model = model
        self._steps = StepModel()
        self.row = self.forward = 0.0

    def plan(self, scheduled: Rows[tuple[Sequence, int]]) -> None:
        """Work out the costs of a step without drafts, which are added to it."""
        prefill_tokens = rows = kv_tokens = 0
        for sequence, count in scheduled:
            kv_tokens += sequence.computed_tokens + count
            if sequence.is_prefilling:
                prefill_tokens += count
            else:
                rows += count
        time = self._steps.step_time
        step_s = time.step_s(prefill_tokens, rows, kv_tokens)
        self.row = self.forward = 0.0
        if step_s > 0.0:
            self.row = len(scheduled) * time.decode_s / step_s
            if self._model is not None:
                self.forward = self._model.forward_s / step_s

    def note_step(self, step: StepRecord, drafting_s: float) -> None:
        """Learn from the time of a step, of which the draft model took `drafting_s`."""
        self._steps.add_step(replace(step, started_at_s=step.started_at_s + drafting_s))
