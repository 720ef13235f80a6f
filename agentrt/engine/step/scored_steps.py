"""Steps that score options: in turn with the steps that decode."""

from __future__ import annotations

from agentrt.base.clock import Clock
from agentrt.engine.outputs import StepOutputs
from agentrt.engine.runner.scoring import Scorer, ready_to_score
from agentrt.engine.sampling.sequence_output import choose_option
from agentrt.engine.scheduling.scheduler import Scheduler
from agentrt.engine.sequence.sequence import Sequence
from agentrt.engine.step.step_runner import StepRunner
from agentrt.protocol.step_output import StepDone


class ScoredSteps:
    """Scores the options of choices whose prompts are computed.

    Args:
        scorer: Scores options.
        scheduler: Scheduler of the sequences.
        steps: Records the steps.
        outputs: Collects what they change.
        clock: Clock of their instants.
    """

    def __init__(
        self,
        scorer: Scorer,
        scheduler: Scheduler,
        steps: StepRunner,
        outputs: StepOutputs,
        clock: Clock,
    ) -> None:
        self._scorer = scorer
        self._scheduler = scheduler
        self._steps = steps
        self._outputs = outputs
        self._clock = clock
        self._scored_last_step = False

    @property
    def has_work(self) -> bool:
        """Whether options are ready to be scored."""
        return bool(ready_to_score(self._scheduler))

    def step(self) -> StepDone | None:
        """Score options that are ready, in every other step at most, so that decodes go on too."""
        ready = [] if self._scored_last_step else ready_to_score(self._scheduler)
        self._scored_last_step = bool(ready)
        if not ready:
            return None
        began_s = self._clock.now_s()
        scored = self._score(ready)
        if not scored:
            return self._outputs.take(None) if self._outputs.has_ends else None
        record = self._steps.record_scored(scored, began_s, self._clock.now_s())
        for sequence in scored:
            try:
                if (finish := choose_option(sequence)) is not None:
                    self._outputs.end(sequence, finish, record.ended_at_s)
            except Exception as error:  # fails this sequence only
                self._fail(sequence, error)
        return self._outputs.take(record)

    def _score(self, ready: list[Sequence]) -> list[Sequence]:
        """Score options; after an error each sequence is tried alone, to fail the faulty one."""
        try:
            return self._scorer.score_options(ready)
        except Exception as error:
            if len(ready) == 1:
                self._fail(ready[0], error)
                return []
            return [scored for sequence in ready for scored in self._score([sequence])]

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        self._outputs.fail(sequence, error, self._clock.now_s())
