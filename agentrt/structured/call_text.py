"""Tool-call parser of streamed text: each call as soon as its arguments are complete."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.segments import CallFrame
from agentrt.structured.json_scan import ValueScanner, overlap, skip_space


@dataclass(frozen=True, slots=True)
class CallText:
    """One call as the model wrote it.

    Attributes:
        name: Name of the tool.
        arguments_json: Arguments as written, not parsed.
    """

    name: str
    arguments_json: str


class CallScanner:
    """Finds calls in text that arrives in pieces; text outside of frames is content.

    A call is returned when its arguments close: later text cannot change it. Each character is
    scanned once, except in a marker that is split between two pieces.

    Attributes:
        frame: Frame of the model's calls.
        calls: Number of calls found.
    """

    def __init__(self, frame: CallFrame) -> None:
        self.frame = frame
        self._pending = ""  # pending: may be the beginning of a marker
        self._content: list[str] = []
        self._name = ""
        self._parts: list[str] = []
        self._value = ValueScanner()
        self._found: list[CallText] = []
        self.calls = 0
        self._step = self._find_opening  # false if more text is needed

    @property
    def content(self) -> str:
        """Text outside of frames so far, without an end that may still become a frame."""
        return "".join(self._content)

    @property
    def in_call(self) -> bool:
        """Whether a frame is open: the text cannot end here."""
        return self._step in (self._find_name, self._find_arguments, self._expect_after)

    def feed_text(self, text: str) -> list[CallText]:
        """Calls completed by `text`."""
        self._pending += text
        while self._step():
            pass
        found, self._found = self._found, []
        return found

    def end_text(self) -> str:
        """End the text: a pending marker outside of a frame is content. Returns all content."""
        if not self.in_call:
            self._take_content(len(self._pending))
        return self.content

    def _find_opening(self) -> bool:
        opening = self.frame.first + self.frame.before
        at = self._pending.find(opening)
        if at >= 0:
            self._take_content(at)
            self._open(len(opening))
            return True
        self._take_content(len(self._pending) - overlap(self._pending, opening))
        return False

    def _find_name(self) -> bool:
        at = self._pending.find(self.frame.middle)
        if at < 0:
            return False
        self._name = self._pending[:at]
        self._pending = self._pending[at + len(self.frame.middle) :]
        self._value = ValueScanner()
        self._step = self._find_arguments
        return True

    def _find_arguments(self) -> bool:
        start = 0 if self._value.started else skip_space(self._pending, 0)
        if start == len(self._pending):
            self._pending = ""
            return False
        end = self._value.feed(self._pending, start)
        self._parts.append(self._pending[start:end])
        self._pending = "" if end is None else self._pending[end:]
        if end is None:
            return False
        self._found.append(CallText(self._name, "".join(self._parts)))
        self._parts.clear()
        self.calls += 1
        self._step = self._expect_after
        return True

    def _expect_after(self) -> bool:
        after = self.frame.after
        if self._pending.startswith(after):
            self._pending = self._pending[len(after) :]
            self._step = self._find_next
            return True
        if after.startswith(self._pending):
            return False
        self._step = self._find_opening  # the model did not close the frame: content follows
        return True

    def _find_next(self) -> bool:
        """Parse what follows a call: another call, the end of the list, or content."""
        again = self.frame.between + self.frame.before
        if self._pending.startswith(again):
            self._open(len(again))
            return True
        if self.frame.last and self._pending.startswith(self.frame.last):
            self._pending = self._pending[len(self.frame.last) :]
            self._step = self._find_opening
            return True
        if again.startswith(self._pending) or self.frame.last.startswith(self._pending):
            return False
        self._step = self._find_opening
        return True

    def _open(self, marker_chars: int) -> None:
        self._pending = self._pending[marker_chars:]
        self._step = self._find_name

    def _take_content(self, chars: int) -> None:
        if chars:
            self._content.append(self._pending[:chars])
            self._pending = self._pending[chars:]
