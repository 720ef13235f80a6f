"""Answers of a person in a replay: those of the recording, at their times."""

from __future__ import annotations

from typing import Any

import anyio

from agentrt.base.errors import AgentrtError
from agentrt.recording import RecordedQuestion, RecordedRuns
from agentrt.runtime import PersonQuestion
from agentrt.testing.recorded_left import take
from agentrt.testing.recorded_value import recorded_value
from agentrt.testing.replay_script import GRACE_S, RecordingMismatch


class ReplayAnswers:
    """Answers the questions of a replay; a value for `RunOptions.on_ask`.

    A question is looked up by its text. Of several equal ones, that of the same node goes first,
    then the first that was recorded; each is answered as often as it was recorded.

    Args:
        recording: The recording.

    Attributes:
        problems: Questions that the recording does not answer.
    """

    def __init__(self, recording: RecordedRuns) -> None:
        self.problems: list[AgentrtError] = []
        self._left = list(recording.questions)

    async def __call__(self, question: PersonQuestion) -> Any:
        """The recorded answer to a question.

        Raises:
            RecordingMismatch: The recording has no such question, or no answer of that type.
            AgentrtError: The question failed when it was recorded.
        """
        found = self._take(question)
        await anyio.sleep(found.wait_s + found.seconds)
        if found.error is not None:
            raise found.error.revived()
        if found.answer is None:
            await anyio.sleep(GRACE_S)
            raise self._noted(
                f"{question.node_id} had no answer in the recording after {found.seconds:.3f} s, "
                "and waits for longer now"
            )
        from pydantic import TypeAdapter

        try:
            return recorded_value(TypeAdapter(question.form), found.answer)
        except ValueError as error:
            problem = f"the recorded answer to {question.text!r}: {error}"
            raise self._noted(problem) from None

    def _take(self, question: PersonQuestion) -> RecordedQuestion:
        found = take(self._left, lambda one: one.question == question.text, question.node_id)
        if found is None:
            left = "".join(f"\n  {one.question}" for one in self._left)
            has = (
                f"the recording has these questions left:{left}" if left else "there are none left"
            )
            raise self._noted(f"{question.node_id}: nobody was asked {question.text!r}; {has}")
        return found

    def _noted(self, problem: str) -> RecordingMismatch:
        mismatch = RecordingMismatch(problem)
        self.problems.append(mismatch)
        return mismatch
