"""Tool-call parser of streamed text: each call as soon as its arguments are complete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentrt.base import canonical_json
from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.structured.call_arguments import ANY_KIND, argument_kinds, read_argument
from agentrt.structured.json_scan import ValueScanner, overlap, skip_space


@dataclass(frozen=True, slots=True)
class CallText:
    """One call as the model wrote it.

    Attributes:
        name: Name of the tool.
        arguments_json: Arguments as written, not parsed; those written one by one as one object.
    """

    name: str
    arguments_json: str


class CallScanner:
    """Finds calls in text that arrives in pieces; text outside of frames is content.

    A call is returned when its arguments close: later text cannot change it. Each character is
    scanned once, except in a marker that is split between two pieces.

    Args:
        frame: Frame of the model's calls.
        tools: The tools offered, whose schemas say which arguments are texts if these are written
            one by one.

    Attributes:
        frame: Frame of the model's calls.
        calls: Number of calls found.
    """

    def __init__(self, frame: CallFrame, tools: Iterable[ToolSchema] = ()) -> None:
        self.frame = frame
        self._tools = tools
        self._pending = ""  # pending: may be the beginning of a marker
        self._content: list[str] = []
        self._name = ""
        self._parts: list[str] = []
        self._key = self._middle = ""
        self._text: list[str] = []  # of a value
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
        return self._step not in (self._find_opening, self._find_next)

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
        if self.frame.argument is not None and not self.frame.middle:
            behind = (self.frame.argument.before, self.frame.after)  # one of them ends the name
            at = min((at for one in behind if (at := self._pending.find(one)) >= 0), default=-1)
        if at < 0:
            return False
        self._name = self._pending[:at]
        self._pending = self._pending[at + len(self.frame.middle) :]
        self._value = ValueScanner()
        self._step = self._find_arguments if self.frame.argument is None else self._find_argument
        return True

    def _find_argument(self) -> bool:
        """Parse one of the arguments that stand one by one, or the end of the call."""
        one, after = self.frame.argument, self.frame.after
        assert one is not None, "arguments stand one by one"
        if self._pending.startswith(one.before):
            found = self._pending[len(one.before) :]
            middles = [middle for middle in (one.middle, one.json_middle) if middle]
            places = [(at, middle) for middle in middles if (at := found.find(middle)) >= 0]
            if not places:
                return False
            at, self._middle = min(places)
            self._key, self._pending = found[:at], found[at + len(self._middle) :]
            self._step = self._find_value_end
            return True
        if self._pending.startswith(after):
            self._pending = self._pending[len(after) :]
            self._take_call(f"{{{','.join(self._parts)}}}")
            self._step = self._find_next
            return True
        if one.before.startswith(self._pending) or after.startswith(self._pending):
            return False
        self._parts.clear()
        self._step = self._find_opening  # the model did not keep to the frame: content follows
        return True

    def _find_value_end(self) -> bool:
        assert self.frame.argument is not None, "arguments stand one by one"
        after = self.frame.argument.after
        at = self._pending.find(after)
        cut = at if at >= 0 else len(self._pending) - overlap(self._pending, after)
        self._text.append(self._pending[:cut])
        self._pending = self._pending[cut:]
        if at < 0:
            return False
        self._pending = self._pending[len(after) :]
        value = read_argument("".join(self._text), self._kinds())
        self._parts.append(f"{canonical_json.dumps(self._key)}:{value}")
        self._text.clear()
        self._step = self._find_argument
        return True

    def _kinds(self) -> frozenset[str]:
        """The kinds of values that the markup and the schema of the argument allow."""
        if self.frame.argument is not None and self.frame.argument.json_middle:
            is_text = self._middle == self.frame.argument.middle
            return frozenset(("string",)) if is_text else ANY_KIND - {"string"}
        for tool in self._tools:
            if tool.name == self._name:
                schema = tool.parameters.get("properties", {}).get(self._key, True)
                return argument_kinds(schema, tool.parameters)
        return ANY_KIND

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
        self._take_call("".join(self._parts))
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

    def _take_call(self, arguments_json: str) -> None:
        self._found.append(CallText(self._name, arguments_json))
        self._parts.clear()
        self.calls += 1

    def _open(self, marker_chars: int) -> None:
        self._pending = self._pending[marker_chars:]
        self._step = self._find_name

    def _take_content(self, chars: int) -> None:
        if chars:
            self._content.append(self._pending[:chars])
            self._pending = self._pending[chars:]
