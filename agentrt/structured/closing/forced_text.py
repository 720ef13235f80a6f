"""How long a text a grammar or a regex can force: jump-forward, and masks, follow it to its end.

Where only one byte may follow, the library takes it and looks again, without a limit. A lexeme such
as `/a+/` has no end of its own if an "a" must follow it. Between two lexemes the parser's limits
hold, so a bound on each lexeme is enough. A regex is one lexeme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.structured.closing.lark_rules import LarkRules
from agentrt.structured.closing.regex_rules import regex_symbol
from agentrt.structured.closing.symbols import (
    NOTHING,
    Choice,
    Concatenation,
    Literal,
    NotModeled,
    Pattern,
    Reference,
    Repeat,
    Symbol,
)
from agentrt.structured.json_schema.byte_automaton import ByteAutomaton

MAX_FORCED_BYTES = 1_000
"""Maximum length of a text that one lexeme may force."""

_CLOSED_KINDS = ("array", "boolean", "null", "object", "string")
"""Types of JSON values that show their own end."""


def is_forced_text_short(lark: str, special_ids: Mapping[str, int]) -> bool:
    """Whether each lexeme of a grammar is known to force a short text only."""
    rules = LarkRules(special_ids, _json_symbol)
    try:
        rules.read(lark)
        rules.check_references()
        forced = _ForcedRuns(rules.rules)
        return all(forced.longest(one) <= MAX_FORCED_BYTES for one in rules.lexemes)
    except (NotModeled, RecursionError):
        return False


def most_forced_bytes(pattern: str) -> float:
    """A length in bytes that no text forced by a regex exceeds; infinite if unknown.

    A form of many fields is long, but each of its forced texts ends where a field begins.

    Args:
        pattern: The regex, matched as a whole, without anchors at its edges.

    Example:
        >>> most_forced_bytes("(?:, x=[0-9]){500}")
        10
    """
    try:
        return _ForcedRuns({}).longest(regex_symbol(pattern))
    except (NotModeled, RecursionError):
        return math.inf


def _json_symbol(schema: Any) -> Symbol:
    """Nothing in place of JSON, whose lexemes end with a quote or before a bracket or comma."""
    if not isinstance(schema, dict) or schema.get("type") not in _CLOSED_KINDS:
        raise NotModeled("a number without brackets")
    return NOTHING


@dataclass(slots=True, eq=False)
class _ForcedRuns:
    """Forced texts of the symbols of one grammar.

    Args:
        rules: Symbols by name.
    """

    rules: Mapping[str, Symbol]
    _names: set[str] = field(default_factory=set)
    _known_ends: dict[int, bool] = field(default_factory=dict)

    def longest(self, symbol: Symbol) -> float:
        """A length in bytes that no forced text within a lexeme exceeds; infinite if unknown."""
        match symbol:
            case Literal(text):
                return len(text)
            case Pattern(automaton):
                return _longest_run(automaton)
            case Concatenation(parts):
                return self._longest_of(parts)
            case Choice(options):
                return max(map(self.longest, options), default=0)
            case Repeat(part, _, most):
                once = 0 if most == 0 else self.longest(part)
                if self._ends_forced(part):  # from within one turn into the next, no further
                    return 2 * once
                return math.inf if most is None else most * once
            case Reference(name) if name not in self._names:
                self._names.add(name)
                found = self.longest(self.rules[name])
                self._names.remove(name)
                return found
        return math.inf

    def _longest_of(self, parts: Sequence[Symbol]) -> float:
        longest: float = 0
        run: float = 0  # bound on a forced text that reaches the end of the parts so far
        for part in parts:
            within = self.longest(part)
            if len(self._first(part)) > 1:
                longest, run = max(longest, run), within
            elif self._ends_forced(part):
                longest, run = max(longest, run + within), within
            else:
                run += within
        return max(longest, run)

    def _ends_forced(self, symbol: Symbol) -> bool:
        """Whether each text of a symbol has a place at which several bytes may follow."""
        known = self._known_ends.get(id(symbol))
        if known is None:
            known = self._known_ends[id(symbol)] = self._has_choice(symbol)
        return known

    def _has_choice(self, symbol: Symbol) -> bool:
        if len(self._first(symbol)) > 1:
            return True
        match symbol:
            case Concatenation(parts):
                return any(map(self._ends_forced, parts))
            case Choice(options):
                return all(map(self._ends_forced, options))
            case Repeat(part, fewest):
                return fewest > 0 and self._ends_forced(part)
        return False

    def _first(self, symbol: Symbol) -> set[int]:
        """Bytes that a symbol may begin with; fewer for those without a model."""
        match symbol:
            case Literal(text):
                return set(text[:1])
            case Pattern(automaton):
                return set(automaton.steps[0])
            case Concatenation(parts):
                found: set[int] = set()
                for part in parts:
                    found |= self._first(part)
                    if not self._may_be_empty(part):
                        break
                return found
            case Choice(options):
                return set[int]().union(*map(self._first, options))
            case Repeat(part, _, most):
                return set() if most == 0 else self._first(part)
        return set()

    def _may_be_empty(self, symbol: Symbol) -> bool:
        match symbol:
            case Literal(text):
                return not text
            case Pattern(automaton):
                return automaton.accepting[0]
            case Concatenation(parts):
                return all(map(self._may_be_empty, parts))
            case Choice(options):
                return any(map(self._may_be_empty, options))
            case Repeat(part, fewest):
                return fewest == 0 or self._may_be_empty(part)
        return False


def _longest_run(automaton: ByteAutomaton) -> float:
    """The longest path through states with a single step; infinite if it is a cycle."""
    runs: dict[int, float] = {}
    for start in range(len(automaton.steps)):
        path: list[int] = []
        state = start
        while state not in runs and len(automaton.steps[state]) == 1:
            runs[state] = math.inf  # until its end is known
            path.append(state)
            state = next(iter(automaton.steps[state].values()))
        length = runs.get(state, 0)
        for passed in reversed(path):
            length += 1
            runs[passed] = length
    return max(runs.values(), default=0) + 1
