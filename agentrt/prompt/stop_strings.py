"""Stop strings in a stream of text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoppedText:
    """Text that is certain to be output.

    Attributes:
        text: Text to output.
        stop: Stop string that ended the output; "" if none has.
    """

    text: str
    stop: str = ""


class StopStrings:
    """Filter that holds back text which may be the beginning of a stop string."""

    __slots__ = ("_held", "_stops")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str) -> StoppedText:
        """Add text; of two stop strings the one that begins first counts."""
        if not self._stops:
            return StoppedText(text)
        held = self._held + text
        found = [(at, stop) for stop in self._stops if (at := held.find(stop)) >= 0]
        if found:
            at, stop = min(found, key=lambda one: (one[0], -len(one[1])))
            if not any(self._may_begin(held, other, at) for other in self._stops):
                self._held = ""
                return StoppedText(held[:at], stop)
        keep = max(self._overlap(held, stop) for stop in self._stops)
        if found:
            keep = len(held)
        cut = len(held) - keep
        self._held = held[cut:]
        return StoppedText(held[:cut])

    def flush(self) -> str:
        """Release the text held back: the output ended without a stop string."""
        held, self._held = self._held, ""
        return held

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        """Length of the longest suffix of `text` that is a prefix of `stop`."""
        for size in range(min(len(text), len(stop) - 1), 0, -1):
            if text.endswith(stop[:size]):
                return size
        return 0

    @staticmethod
    def _may_begin(text: str, stop: str, before: int) -> bool:
        """Whether an occurrence of `stop` may still turn out to begin before index `before`."""
        first = max(0, len(text) - len(stop) + 1)
        return any(stop.startswith(text[at:]) for at in range(first, before))
