"""What a model thinks before it answers, cut from its text as it comes."""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.base.segments import ThinkFrame


@record
class ReasoningDelta:
    """What more text brought.

    Attributes:
        thought: Before the marker.
        answer: Behind it.
    """

    thought: str = ""
    answer: str = ""


class ReasoningText:
    """Cuts one output in two; each character is looked at once, but for a marker in two pieces.

    Args:
        frame: How the model thinks.

    Attributes:
        ended: The marker has come: what follows is the answer.
    """

    def __init__(self, frame: ThinkFrame) -> None:
        self.ended = False
        self._opening = "" if frame.opened else frame.opening
        self._marker = frame.marker
        self._after = frame.after
        self._held = ""

    def push(self, text: str) -> ReasoningDelta:
        """Take more text."""
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
            keep = _overlap(self._held, self._marker)
            cut = len(self._held) - keep
            thought, self._held = self._held[:cut], self._held[cut:]
            return ReasoningDelta(thought)
        thought, self._held = self._held[:at], self._held[at + len(self._marker) :]
        self.ended = True
        return ReasoningDelta(thought, self._behind())

    def flush(self) -> ReasoningDelta:
        """The text is over; behind the marker, only a piece of the frame can be left."""
        held, self._held = self._held, ""
        return ReasoningDelta() if self.ended else ReasoningDelta(thought=held)

    def _behind(self) -> str:
        """What is known of the answer: what the frame writes before it is none of it."""
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
