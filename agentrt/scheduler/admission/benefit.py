"""Whether an admission gate is worth its while on an engine, by what computing takes there.

A gate spares the contexts that make way for others and are computed again; what it costs is steps
that fewer sequences share, each of which takes a while whatever it computes. So it is worth it
where computing a context again is dear beside the steps of the generation that goes on from it: on
a processor that multiplies slowly, but not where prompts are cheap.
"""

from __future__ import annotations

from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import StepModel

ENOUGH = 100
"""Generations, and steps, before which nothing is known: until then it is worth it."""

DECAY = 0.998
"""For each generation: what programs do on average changes slowly, one kind of them quickly."""

LOW, HIGH = 0.2, 0.3
"""Between them the answer stays. Below 1, as several share the steps that a gate makes more of."""

_ENOUGH_ENDS = (1.0 - DECAY**ENOUGH) / (1.0 - DECAY) - 1e-9


class AdmissionBenefit:
    """Learns what an engine's time goes into.

    Attributes:
        holds: Whether the gate is worth it.
    """

    __slots__ = ("_ends", "_known_tokens", "_model", "_output_tokens", "holds")

    def __init__(self) -> None:
        self.holds = True
        self._model = StepModel()
        self._ends = 0.0
        self._known_tokens = 0.0
        self._output_tokens = 0.0

    @property
    def ratio(self) -> float:
        """Of computing a context again by the steps of its generation, each as it is on average."""
        time = self._model.time
        steps_s = self._output_tokens * time.base_s
        return self._known_tokens * time.prefill_s / steps_s if steps_s else float("inf")

    def stepped(self, step: StepRecord) -> None:
        """The engine computed a step."""
        self._model.add(step)

    def ended(self, known_tokens: float, output_tokens: int) -> bool:
        """A generation ended; whether the answer is another one now.

        Args:
            known_tokens: Of its prompt, what its engine had had before, whether it was still there
                or not: else a gate that is open, and loses contexts, would find them to be cheap.
            output_tokens: That it produced.
        """
        self._ends = DECAY * self._ends + 1.0
        self._known_tokens = DECAY * self._known_tokens + known_tokens
        self._output_tokens = DECAY * self._output_tokens + output_tokens
        if self._ends < _ENOUGH_ENDS or len(self._model) < ENOUGH:
            return False
        before = self.holds
        self.holds = self.ratio > (LOW if before else HIGH)
        return self.holds != before
