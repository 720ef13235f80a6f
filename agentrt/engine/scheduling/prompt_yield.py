"""Yielding of prompts to decodes: whether a prompt waits until more urgent decodes have ended.

A step takes as long as the prompts in it, also for the sequences that decode beside them. A prompt
that goes first delays every decode by its own time. If it waits, it is late by the time until those
decodes end, and so are the prompts behind it. The smaller sum of delays decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.sequence.sequence import Phase, Sequence, Urgency
from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import StepModel

MIN_STEPS = 100
"""Steps from which their costs are known; before, no prompt yields."""

LONG_STEP = 20.0
"""Prompts of a step take at most this multiple of its fixed time: a twentieth is little to save by
longer steps, and what arrives waits for the end of a step, however urgent it is."""

LEAST_STEP_TOKENS = 32
"""Prompt tokens that a step may always have. Where a model is small its fixed time may be fitted as
next to nothing; with a token a step nothing that follows would tell it apart any more."""


def is_later_better(prompt_s: float, ends_s: Iterable[float], prompts: int) -> bool:
    """Whether waiting for some decodes delays everything by less in sum than going first.

    Args:
        prompt_s: Time of computing the prompt.
        ends_s: Times until decodes end that are more urgent, the shortest first.
        prompts: Number of prompts to compute, this one included.
    """
    return any(count * prompt_s > prompts * left_s for count, left_s in enumerate(ends_s, start=1))


def tokens_left(sequence: Sequence) -> float:
    """Expected rest of an output; 0.0 if nothing is known.

    An output that is longer than expected is expected to become twice as long as it is, since
    lengths have long tails.
    """
    expected, produced = sequence.info.output_tokens, sequence.output_tokens
    if not expected:
        return 0.0
    left = expected - produced if produced < expected else float(produced)
    return max(1.0, min(left, sequence.max_output_tokens - produced))


class PromptYield:
    """Decides in each step which prompts wait for more urgent decodes.

    Args:
        urgency: Sort key of a sequence at an instant, the smallest first.
        allocator: Knows the cached tokens of a prompt.
    """

    def __init__(
        self, urgency: Callable[[float, Sequence], Urgency], allocator: KvAllocator
    ) -> None:
        self._urgency = urgency
        self._allocator = allocator
        self._model = StepModel()
        self._ends: list[tuple[float, Sequence]] = []
        self._prompts = 0

    def note_step(self, step: StepRecord) -> None:
        """Learn the costs of a step."""
        self._model.add_step(step)

    def begin_step(self, decoding: Iterable[Sequence], prompts: int) -> None:
        """Note the decodes of the step being scheduled, and the number of prompts to compute."""
        self._prompts = prompts
        self._ends = []
        if len(self._model) < MIN_STEPS:
            return
        known = [(tokens_left(one), one) for one in decoding]
        step_s = self._model.step_time.step_s(0, len(known))
        self._ends = [(step_s * left, one) for left, one in known if left]
        self._ends.sort(key=lambda end: end[0])

    def limit_tokens(self, tokens: int) -> int:
        """Most prompt tokens of a step, of so many that are left of its budget."""
        time = self._model.step_time
        if len(self._model) < MIN_STEPS or not time.prefill_s:
            return tokens
        short_tokens = round(LONG_STEP * time.base_s / time.prefill_s)
        return min(tokens, max(LEAST_STEP_TOKENS, short_tokens))

    def yields(self, now_s: float, sequence: Sequence) -> bool:
        """Whether the prompt of a sequence waits in this step."""
        if not self._ends:
            return False
        known = len(sequence.tokens)
        pending_tokens = known - sequence.computed_tokens
        if not self._is_later_better(pending_tokens, self._ends):
            return False  # not even if all of them were more urgent, and nothing cached
        own = self._urgency(now_s, sequence)
        urgent = [end for end in self._ends if self._urgency(now_s, end[1]) < own]
        if sequence.phase is not Phase.RUNNING:
            pending_tokens = known - self._allocator.cached_tokens(sequence.key)
        return self._is_later_better(pending_tokens, urgent)

    def _is_later_better(self, tokens: int, ends: list[tuple[float, Sequence]]) -> bool:
        prompt_s = self._model.step_time.prefill_s * tokens
        return is_later_better(prompt_s, (left_s for left_s, _ in ends), self._prompts)
