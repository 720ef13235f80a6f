"""Benefit of admission control: whether holding runs back pays on an engine.

Holding back saves contexts from eviction and recomputation. It costs steps: with fewer sequences
per step there are more of them, each with its base time. So it pays where recomputing a context is
expensive compared with the steps of the generation that continues it: on a processor that
multiplies slowly, but not where prefills are cheap.
"""

from __future__ import annotations

from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import StepModel

MIN_SAMPLES = 100
"""Generations, and steps, before anything is known; until then it counts as paying."""

DECAY = 0.998
"""Weight of earlier generations: what programs do on average changes slowly."""

LOW, HIGH = 0.2, 0.3
"""Hysteresis: between them the answer stays. Below 1, since several sequences share a step."""

NO_BENEFIT = "contexts take less to compute again than steps that fewer share"

_MIN_GENERATIONS = (1.0 - DECAY**MIN_SAMPLES) / (1.0 - DECAY) - 1e-9


class AdmissionBenefit:
    """Learns how an engine spends its time.

    Attributes:
        pays: Whether holding runs back pays.
    """

    __slots__ = ("_context_tokens", "_generations", "_model", "_output_tokens", "pays")

    def __init__(self) -> None:
        self.pays = True
        self._model = StepModel()
        self._generations = 0.0
        self._context_tokens = 0.0
        self._output_tokens = 0.0

    @property
    def ratio(self) -> float:
        """Average time of recomputing a context, divided by the step time of its generation."""
        time = self._model.step_time
        steps_s = self._output_tokens * time.base_s
        return self._context_tokens * time.prefill_s / steps_s if steps_s else float("inf")

    @property
    def prefill_s(self) -> float:
        """Time of computing a prompt token, as far as it is known."""
        return self._model.step_time.prefill_s

    def note_step(self, step: StepRecord) -> None:
        """Learn from a step of the engine."""
        self._model.add_step(step)

    def note_end(self, context_tokens: float, output_tokens: int) -> bool:
        """Learn from an ended generation; returns whether the answer has changed.

        Args:
            context_tokens: Prompt tokens that the engine had had before, whether still cached or
                not. If only cached ones counted, contexts would look cheap whenever many are lost.
            output_tokens: Output length.
        """
        self._generations = DECAY * self._generations + 1.0
        self._context_tokens = DECAY * self._context_tokens + context_tokens
        self._output_tokens = DECAY * self._output_tokens + output_tokens
        if self._generations < _MIN_GENERATIONS or len(self._model) < MIN_SAMPLES:
            return False
        before = self.pays
        self.pays = self.ratio > (LOW if before else HIGH)
        return self.pays != before
