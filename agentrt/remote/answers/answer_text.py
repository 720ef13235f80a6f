"""The text of an answer, taken out of the form in which its constraint was sent."""

from __future__ import annotations

import json

from agentrt.remote.constraints.constraint_forms import AnswerReading
from agentrt.remote.constraints.json_filters import AbsentMembers, JsonCompactor, Unwrapper


class AnswerText:
    """Reads one answer while it comes.

    A text that is not of the form is passed on as it is, so that a check or the reader of the type
    refuses it.

    Args:
        reading: How the answer stands in its form.
    """

    def __init__(self, reading: AnswerReading) -> None:
        self._reading = reading
        compacts = reading.compact or reading.wrapped or bool(reading.absent)
        self._compactor = JsonCompactor() if compacts else None
        self._unwrapper = Unwrapper() if reading.wrapped else None
        self._members = AbsentMembers(reading.absent) if reading.absent else None
        self._held: list[str] = []

    def feed_text(self, text: str) -> str:
        """The part of the answer that `text` adds."""
        if self._compactor is not None:
            text = self._compactor.feed_text(text)
        if self._unwrapper is not None:
            text = self._unwrapper.feed_text(text)
        if self._members is not None:
            text = self._members.feed_text(text)
        if self._reading.is_string or self._reading.from_text:
            self._held.append(text)
            return ""
        return text

    def close(self, *, calls: int = 0, cut: bool = False) -> str:
        """The rest of the answer at its end.

        Args:
            calls: Number of tool calls in it.
            cut: Whether a limit has ended it.
        """
        held = "".join(self._held)
        if self._reading.is_string:
            return _decoded(held, cut=cut)
        if self._reading.from_text and not calls:
            text = json.dumps(held, ensure_ascii=False)
            return text[:-1] if cut else text  # an open string may be closed
        return held

    @property
    def is_whole(self) -> bool:
        """Whether an object around the answer has ended."""
        return self._unwrapper is None or self._unwrapper.complete


def _decoded(text: str, *, cut: bool) -> str:
    """The text of a JSON string; of one that was cut off, as far as it goes."""
    for end in ("", '"') if cut else ("",):
        try:
            value = json.loads(text + end)
        except ValueError:
            continue
        if isinstance(value, str):
            return value
    return text
