"""Separates the reasoning of a model from its answer, as the text comes."""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.base.segments import ThinkFrame


@record
class ReasoningDelta:
    """More text, split at the marker that ends the reasoning.

    Attributes:
        thought: Text before the marker.
        answer: Text behind it.
    """

    thought: str = ""
    answer: str = ""


class ReasoningText:
    """Splits one output; each character is read once, except for a marker that comes in pieces.

    Args:
        frame: The markers around the reasoning of the model.

    Attributes:
        ended: Whether the reasoning has ended, so that all further text is the answer.
    """

    def __init__(self, frame: ThinkFrame) -> None:
        self.ended = False
        self._opening = "" if frame.opened else frame.opening
        self._marker = frame.marker
        self._after = frame.after
        self._held = ""

    def push(self, text: str) -> ReasoningDelta:
        """Split more text."""
        self._held += text
        if self._opening:
            if self._opening.startswith(self._held):
                return ReasoningDelta()
            self._held = self._held.removeprefix(self._opening)
            self._opening = ""
        if self.ended:
            return ReasoningDelta(answer=self._behind())
        at = self._held.find(self._marker)
        if at < 0:
            cut = len(self._held) - _overlap(self._held, self._marker)
            thought, self._held = self._held[:cut], self._held[cut:]
            return ReasoningDelta(thought)
        thought, self._held = self._held[:at], self._held[at + len(self._marker) :]
        self.ended = True
        return ReasoningDelta(thought, self._behind())

    def flush(self) -> ReasoningDelta:
        """Give the text that was held back; behind the marker that is only a piece of the frame."""
        held, self._held = self._held, ""
        return ReasoningDelta() if self.ended else ReasoningDelta(thought=held)

    def _behind(self) -> str:
        """The known part of the answer, without the text that the frame puts before it."""
        if self._after:
            if len(self._held) < len(self._after) and self._after.startswith(self._held):
                return ""
            self._held = self._held.removeprefix(self._after)
            self._after = ""
        answer, self._held = self._held, ""
        return answer


def _overlap(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`."""
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if marker.startswith(text[-length:]):
            return length
    return 0
