"""Tool calls in the text of a model, each as soon as its arguments are whole."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.segments import CallFrame
from agentrt.structured.json_scan import ValueScanner, skip_space


@dataclass(frozen=True, slots=True)
class CallText:
    """One call as the model wrote it.

    Attributes:
        name: Of the tool.
        arguments_json: As written, not parsed.
    """

    name: str
    arguments_json: str


class CallScanner:
    """Finds calls in text that arrives in pieces; what is outside of frames is content.

    A call is out when its arguments close: nothing that follows can change it. Each character is
    looked at once, but for a marker that two pieces share.

    Attributes:
        frame: How the model writes calls.
    """

    def __init__(self, frame: CallFrame) -> None:
        self.frame = frame
        self._held = ""  # not told yet: may be the beginning of a marker
        self._content: list[str] = []
        self._name = ""
        self._parts: list[str] = []
        self._value = ValueScanner()
        self._place = "content"  # content | name | arguments | after | next
        self._calls = 0

    @property
    def content(self) -> str:
        """Text outside of frames so far, as far as it cannot become a frame any more."""
        return "".join(self._content)

    @property
    def calls(self) -> int:
        """How many calls were found."""
        return self._calls

    @property
    def inside(self) -> bool:
        """Whether a frame is open: the text cannot end here."""
        return self._place in ("name", "arguments", "after")

    def push(self, text: str) -> list[CallText]:
        """The calls that `text` completes."""
        self._held += text
        found: list[CallText] = []
        while self._advance(found):
            pass
        return found

    def flush(self) -> str:
        """The text is over: everything still held outside of a frame is content. Returns it all."""
        if not self.inside:
            self._tell(len(self._held))
        return self.content

    def _advance(self, found: list[CallText]) -> bool:
        """Do one thing with what is held; False when more text is needed."""
        match self._place:
            case "content":
                return self._find_opening()
            case "name":
                return self._find_name()
            case "arguments":
                return self._find_arguments(found)
            case "after":
                return self._expect_after()
            case _:
                return self._find_next()

    def _find_opening(self) -> bool:
        opening = self.frame.first + self.frame.before
        at = self._held.find(opening)
        if at >= 0:
            self._tell(at)
            self._open(len(opening))
            return True
        self._tell(len(self._held) - _overlap(self._held, opening))
        return False

    def _find_name(self) -> bool:
        at = self._held.find(self.frame.middle)
        if at < 0:
            return False
        self._name = self._held[:at]
        self._held = self._held[at + len(self.frame.middle) :]
        self._value = ValueScanner()
        self._place = "arguments"
        return True

    def _find_arguments(self, found: list[CallText]) -> bool:
        start = 0 if self._value.started else skip_space(self._held, 0)
        if start == len(self._held):
            self._held = ""
            return False
        end = self._value.feed(self._held, start)
        self._parts.append(self._held[start:end])
        self._held = "" if end is None else self._held[end:]
        if end is None:
            return False
        found.append(CallText(self._name, "".join(self._parts)))
        self._parts.clear()
        self._calls += 1
        self._place = "after"
        return True

    def _expect_after(self) -> bool:
        after = self.frame.after
        if self._held.startswith(after):
            self._held = self._held[len(after) :]
            self._place = "next"
            return True
        if after.startswith(self._held):
            return False
        self._place = "content"  # a frame that the model did not close: what follows is content
        return True

    def _find_next(self) -> bool:
        """After a call: another one, the end of the list, or content."""
        again = self.frame.between + self.frame.before
        if self._held.startswith(again):
            self._open(len(again))
            return True
        if self.frame.last and self._held.startswith(self.frame.last):
            self._held = self._held[len(self.frame.last) :]
            self._place = "content"
            return True
        if again.startswith(self._held) or self.frame.last.startswith(self._held):
            return False
        self._place = "content"
        return True

    def _open(self, marker_chars: int) -> None:
        self._held = self._held[marker_chars:]
        self._place = "name"

    def _tell(self, chars: int) -> None:
        if chars:
            self._content.append(self._held[:chars])
            self._held = self._held[chars:]


def _overlap(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`."""
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if marker.startswith(text[-length:]):
            return length
    return 0
