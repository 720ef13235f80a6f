"""Filters over the text of JSON while it comes: white space, a wrapper, members that are absent.

Each undoes what a form of a constraint has put around an answer; none of them mends a text.
"""

from __future__ import annotations

import json

WRAPPER = "value"
_HEAD = f'{{"{WRAPPER}":'


class JsonStrings:
    """Position in a JSON text, as far as strings go."""

    def __init__(self) -> None:
        self._inside = False
        self._escaped = False

    def step(self, char: str) -> bool:
        """Whether the next character is part of a string, its quotes included."""
        if not self._inside:
            self._inside = char == '"'
            return self._inside
        self._inside = self._escaped or char != '"'
        self._escaped = char == "\\" and not self._escaped
        return True

    @property
    def open(self) -> bool:
        """Whether a string is open."""
        return self._inside


class JsonCompactor:
    """Drops the white space between the tokens of a JSON text, piece by piece."""

    def __init__(self) -> None:
        self._strings = JsonStrings()

    def feed_text(self, text: str) -> str:
        """`text` without the white space outside strings."""
        in_string = self._strings.step
        return "".join(char for char in text if in_string(char) or char not in " \t\r\n")


class Unwrapper:
    """Takes the value out of `{"value":...}`, compact text piece by piece.

    Text that is no such object is passed on as it is, so that its reader refuses it.

    Attributes:
        complete: Whether the object has ended.
    """

    def __init__(self) -> None:
        self.complete = False
        self._head = _HEAD
        self._held = ""
        self._depth = 0
        self._strings = JsonStrings()

    def feed_text(self, text: str) -> str:
        """The part of `text` that belongs to the value."""
        if self._head:
            self._held += text
            if self._head.startswith(self._held):
                if self._head != self._held:
                    return ""
            elif not self._held.startswith(self._head):
                text, self._held = self._held, ""
                return text
            text, self._head = self._held[len(self._head) :], ""
        kept: list[str] = []
        for char in text:
            if self._strings.step(char):
                kept.append(char)
                continue
            if char in "]}" and self._depth == 0 and not self.complete:
                self.complete = True
                continue
            self._depth += (char in "[{") - (char in "]}")
            kept.append(char)
        return "".join(kept)


class AbsentMembers:
    """Leaves out members with a name of `names` whose value is null, compact text piece by piece.

    Under a strict schema each member is required; null stands for one that is absent.

    Args:
        names: Names of members for which null has no other meaning.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = {f"{json.dumps(name, ensure_ascii=False)}:null" for name in names}
        self._strings = JsonStrings()
        self._containers: list[str] = []
        self._written: list[bool] = []
        self._member: str | None = None

    def feed_text(self, text: str) -> str:
        """`text` without those members."""
        return "".join(self._step(char) for char in text)

    def _step(self, char: str) -> str:
        is_text = self._strings.step(char)
        if self._member is not None:
            return self._in_member(char, is_text)
        if is_text:
            return char
        if char == "," and self._containers and self._containers[-1] == "{":
            self._member = ""
            return ""
        if char in "[{":
            self._open(char)
            return char
        if char in "]}":
            self._close()
        return char

    def _in_member(self, char: str, is_text: bool) -> str:
        """One more character of the name, or of a value that may be null."""
        assert self._member is not None
        if not is_text and char in ",}" and self._member in self._names:
            if char == ",":
                self._member = ""
                return ""
            self._member = None
            self._close()
            return char
        if self._member == "" and char == "}" and not is_text:
            self._member = None
            self._close()
            return char
        self._member += char
        if any(null.startswith(self._member) for null in self._names):
            return ""
        member, self._member = self._member, None
        if self._strings.open:
            return self._separated(member)
        text = self._separated(member)
        if char in "[{":
            self._open(char)
        elif char in "]}":
            self._close()
        elif char == ",":
            self._member, text = "", text[:-1]
        return text

    def _separated(self, member: str) -> str:
        """The beginning of a member that is kept, behind its comma."""
        comma = "," if self._written[-1] else ""
        self._written[-1] = True
        return comma + member

    def _open(self, bracket: str) -> None:
        self._containers.append(bracket)
        self._written.append(False)
        if bracket == "{":
            self._member = ""

    def _close(self) -> None:
        if self._containers:
            self._containers.pop()
            self._written.pop()
