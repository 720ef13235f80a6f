"""Partial parsing of a regex: its cost, and a form that both libraries read alike."""

from __future__ import annotations

import re

from agentrt.base.record import record

END_MARKER = "\U0010ffff"
"""A noncharacter for the end of the text."""

START_MARKER = "\U0010fffe"
"""A noncharacter for the beginning of the text."""

_ASCII = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r\\f\\v"}
_SPECIAL = set("\\.+*?()|[]{}^$")


@record
class RegexCost:
    """Estimated size of a regex automaton.

    Attributes:
        states: Approximate number of states before determinization.
        wide_after_choice: Atoms that match several characters after a repetition of variable
            length: each can double the number of states.
        broad: Whether some atom may match noncharacters, such as our markers.
    """

    states: int
    wide_after_choice: int
    broad: bool


def escape_regex(text: str) -> str:
    """A regex that matches exactly `text`."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in text)


def whole_match(pattern: str) -> str:
    r"""The same regex for matching whole texts, `\d \w \s` in ASCII, without outer anchors.

    An anchor at the edge of a whole match has no effect, and the libraries treat it differently.
    """
    atoms: list[str] = ATOM.findall(pattern)
    pieces: list[str] = []
    depth = 0
    for before, atom, after in zip(["|", *atoms], atoms, [*atoms[1:], "|"], strict=False):
        depth += (atom == "(") - (atom == ")")
        outer_anchor = (before, atom) == ("|", "^") or (atom, after) == ("$", "|")
        if depth > 0 or not outer_anchor:
            pieces.append(_in_ascii(atom))
    return "".join(pieces)


def _in_ascii(atom: str) -> str:
    r"""An escape or a class with the characters of `\d`, `\w` and `\s` written out."""
    if atom[1:] in _ASCII:
        return f"[{_ASCII[atom[1:]]}]"
    if atom == "[" or not atom.startswith("["):
        return atom
    return _ESCAPE.sub(lambda found: _ASCII.get(found[1], found[0]), atom)


def anywhere(pattern: str) -> str:
    """The regex of whole texts that contain a match, as JSON Schema and pydantic read it."""
    found: list[str] = []
    for branch in _branches(pattern):
        starts = branch.startswith("^")
        ends = branch.endswith("$") and not branch.endswith("\\$")
        inner = branch[int(starts) : len(branch) - int(ends)]
        before, after = "" if starts else "(?s:.*)", "" if ends else "(?s:.*)"
        found.append(f"{before}(?:{inner}){after}")
    return "|".join(found)


def _branches(pattern: str) -> list[str]:
    """The alternatives of a regex, cut outside of groups and classes."""
    branches, depth = [""], 0
    for atom in ATOM.findall(pattern):
        depth += (atom == "(") - (atom == ")")
        if atom == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += atom
    return branches


def cost_of(pattern: str) -> RegexCost:
    """Estimate of the automaton of `pattern`, from the text alone."""
    return _CostReader(pattern).read()


class _CostReader:
    """One pass over a pattern; rough, but never too low for an atom counted as narrow."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._sizes = [0]  # states inside each open group
        self._wides = [0]  # wide atoms inside each open group
        self._forks = [False]  # whether each has alternatives
        self._last_size = 0  # size of the atom before a repetition
        self._last_wide = 0
        self._varying = False  # a repetition of open length came before
        self._after = 0  # wide atoms since
        self._classes: list[str] = []  # the wide atoms since the last separator
        self._broad = bool(_FLAGS.search(pattern)) or any(c >= "\U0010fffe" for c in pattern)

    def read(self) -> RegexCost:
        at = 0
        while at < len(self._pattern):
            at += self._read_at(at)
        return RegexCost(sum(self._sizes), self._after, self._broad)

    def _read_at(self, at: int) -> int:
        """Read the element at `at`; returns its length."""
        char = self._pattern[at]
        if char == "(":
            self._sizes.append(0)
            self._wides.append(0)
            self._forks.append(False)
            flags = GROUP.match(self._pattern, at)
            return len(flags.group()) if flags else 1
        if char == ")" and len(self._sizes) > 1:
            fork = int(self._forks.pop())
            self._last_size, self._last_wide = self._sizes.pop(), self._wides.pop() + fork
            self._after += fork if self._varying else 0
            self._sizes[-1] += self._last_size
            self._wides[-1] += self._last_wide
        elif char in "*+?{":
            return self._repeat(at)
        elif char == "|":
            self._forks[-1] = True
        elif char not in "^$)":
            return self._atom(at)
        return 1

    def _repeat(self, at: int) -> int:
        counted = COUNTED.match(self._pattern, at)
        width = len(counted.group()) if counted else 1
        low, high = counted.groups() if counted else ("0", None)
        most = max(1, int(high or low))
        self._sizes[-1] += self._last_size * (most - 1)
        self._wides[-1] += self._last_wide * (most - 1)
        if self._varying:
            self._after += self._last_wide * (most - 1)
        elif counted is None or self._pattern[at : at + width] != f"{{{low}}}":
            self._varying = True
            self._after += self._last_wide * most if self._last_wide > 1 else 0
        return width

    def _atom(self, at: int) -> int:
        found = ATOM.match(self._pattern, at)
        text = found.group() if found else self._pattern[at]
        wide = text[0] in "[." or (text[0] == "\\" and text[1:2].isalpha())
        broad = _BROAD.search(text) is not None and not text.startswith(_PRINTABLE)
        self._broad = self._broad or broad
        self._last_size, self._last_wide = 1, int(wide)
        self._sizes[-1] += 1
        self._wides[-1] += int(wide)
        if wide:
            self._classes.append(text)
            self._after += int(self._varying)
        elif self._separates(text, at + len(text)):
            self._varying, self._after = False, self._after if self._after > _FEW else 0
            self._classes.clear()
        return len(text)

    def _separates(self, literal: str, after: int) -> bool:
        """Whether a literal outside of groups separates the text before it from the text after."""
        optional = self._pattern[after : after + 1] in ("?", "*", "{", "+", "|")
        if len(self._sizes) > 1 or optional or "|" in self._pattern:
            return False
        char = literal[-1]
        return not any(_may_match(text, char) for text in self._classes)


_FEW = 8
_PRINTABLE = "[ -~&&"
_FLAGS = re.compile(r"\(\?[^:)]*x|\\[uUx]")
GROUP = re.compile(r"\(\?[A-Za-z-]*:|\(\?P?<[A-Za-z_]+>|\(\?[A-Za-z-]+(?=\))")
COUNTED = re.compile(r"\{(\d+),?(\d+)?\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
ATOM = re.compile(r"\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\])*\]|.", re.DOTALL)
_BROAD = re.compile(r"\\[DWSpPdws]|\[\^|^\.$|\[:")


def _may_match(text: str, char: str) -> bool:
    """Whether a class may match a character; True if that is unclear."""
    if "&&" in text or "--" in text or text.count("[") > 1:
        return True
    try:
        return re.fullmatch(text, char, re.DOTALL) is not None
    except re.error:
        return True
