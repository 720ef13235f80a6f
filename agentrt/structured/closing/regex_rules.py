"""A regex as a symbol: groups, alternatives and counts are rules, each atom an automaton.

So a count of any size costs nothing, and no automaton of a whole regex is built.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentrt.base import canonical_json
from agentrt.structured.closing.symbols import (
    Choice,
    Concatenation,
    Literal,
    NotModeled,
    Pattern,
    Repeat,
    Symbol,
)
from agentrt.structured.json_schema.byte_automaton import (
    AutomatonTooLarge,
    automaton_of,
    in_json_string,
)
from agentrt.structured.json_schema.regex_text import ATOM, COUNTED, GROUP

_FLAGS = re.compile(r"\(\?([a-zA-Z-]*):?")
_PLAIN_ESCAPE = re.compile(r"\\[^A-Za-z0-9]")
_SIMPLE_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_MAX_DEPTH = 100


def regex_symbol(pattern: str, flags: str = "", *, in_json: bool = False) -> Symbol:
    """The symbol of a regex, matched as a whole.

    Args:
        pattern: The regex, without anchors at its edges.
        flags: Flags of the whole regex, such as "i".
        in_json: Whether its characters are written as in a JSON string.

    Raises:
        NotModeled: The regex has anchors inside, or unknown syntax.
    """
    reader = _RegexReader(pattern, in_json)
    found = reader.alternatives(flags, 0)
    if reader.at < len(pattern):
        raise NotModeled(f"regex {pattern[:80]!r}")
    return found


@dataclass(slots=True)
class _RegexReader:
    """One pass over a pattern."""

    pattern: str
    in_json: bool
    at: int = 0

    def alternatives(self, flags: str, depth: int) -> Symbol:
        if depth > _MAX_DEPTH:
            raise NotModeled("deep groups of a regex")
        options = [self._sequence(flags, depth)]
        while self._next() == "|":
            self.at += 1
            options.append(self._sequence(flags, depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _sequence(self, flags: str, depth: int) -> Symbol:
        parts: list[Symbol] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._counted(self._atom(flags, depth)))
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _counted(self, part: Symbol) -> Symbol:
        while True:
            char = self._next()
            counted = COUNTED.match(self.pattern, self.at)
            if char in _SIMPLE_COUNTS and char:
                self.at += 1
                fewest, most = _SIMPLE_COUNTS[char]
            elif counted is not None:
                self.at = counted.end()
                fewest = int(counted[1])
                is_open = counted[2] is None and "," in counted[0]
                most = None if is_open else int(counted[2] or counted[1])
            else:
                return part
            if self._next() == "?":  # lazy: the same texts
                self.at += 1
            part = Repeat(part, fewest, most)

    def _atom(self, flags: str, depth: int) -> Symbol:
        if self._next() == "(":
            return self._group(flags, depth)
        found = ATOM.match(self.pattern, self.at)
        assert found is not None
        self.at = found.end()
        text = found[0]
        if text in "^$*+?{" or (text[0] == "\\" and text[1] in "AbBzZ"):
            raise NotModeled(f"{text} in a regex")
        if (len(text) == 1 and text != "." and not flags) or _PLAIN_ESCAPE.fullmatch(text):
            char = text[-1]
            return Literal((canonical_json.dumps(char)[1:-1] if self.in_json else char).encode())
        return pattern_symbol(f"(?{flags}:{text})" if flags else text, in_json=self.in_json)

    def _group(self, flags: str, depth: int) -> Symbol:
        opening = GROUP.match(self.pattern, self.at)
        if opening is None and self.pattern.startswith("(?", self.at):
            raise NotModeled(f"{self.pattern[self.at : self.at + 3]} in a regex")
        text = opening[0] if opening else "("
        self.at += len(text)
        if text.startswith("(?") and "<" not in text:
            named = _FLAGS.match(text)
            assert named is not None
            flags += named[1]
            if not text.endswith(":"):
                raise NotModeled("flags amid a regex")
        inner = self.alternatives(flags, depth + 1)
        if self._next() != ")":
            raise NotModeled("an open group of a regex")
        self.at += 1
        return inner


def pattern_symbol(pattern: str, *, in_json: bool = False) -> Symbol:
    """The symbol of a regex by its automaton.

    Raises:
        NotModeled: The regex has too many states, or unknown syntax.
    """
    try:
        automaton = automaton_of(pattern)
        return Pattern(in_json_string(automaton) if in_json else automaton)
    except AutomatonTooLarge:
        raise NotModeled(f"regex {pattern[:80]!r}") from None
