"""Derivations of a grammar, byte by byte: what is still to be derived is a stack of symbols."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from agentrt.structured.closing.symbols import (
    Choice,
    Concatenation,
    Conjunction,
    Grammar,
    Literal,
    Pattern,
    Reference,
    Repeat,
    SpecialToken,
    Symbol,
)
from agentrt.structured.closing.weights import LeastWeights

_MAX_STACKS = 200_000
_Side = frozenset["Stack"]


class SearchGaveUp(Exception):
    """A search has visited too many states."""


@dataclass(slots=True, eq=False)
class Stack:
    """The symbols still to be derived.

    Attributes:
        symbol: The symbol on top; None at the end.
        at: Bytes of a literal, the state of an automaton, or of a conjunction, so far.
        rest: The stack below; the stack itself at the end.
        weight: Lower bound on the weight of the texts of the whole stack.
    """

    symbol: Symbol | None
    at: int
    rest: Stack
    weight: float

    @classmethod
    def end(cls) -> Stack:
        """The stack of a complete text."""
        made = cls.__new__(cls)
        made.symbol, made.at, made.rest, made.weight = None, 0, made, 0.0
        return made


@dataclass(slots=True, eq=False)
class Derivations:
    """The stacks of a grammar; equal ones are one object.

    Args:
        grammar: The grammar.
        weights: Least weights of its symbols.
    """

    grammar: Grammar
    weights: LeastWeights
    end: Stack = field(default_factory=Stack.end)
    _stacks: dict[tuple[int, int, int], Stack] = field(default_factory=dict)
    _repeats: dict[tuple[int, int, int | None], Repeat] = field(default_factory=dict)
    _sides: dict[tuple[_Side, ...], int] = field(default_factory=dict)
    _states: list[tuple[_Side, ...]] = field(default_factory=list)

    def push(self, symbol: Symbol, rest: Stack) -> Stack:
        """The stack of a symbol and then `rest`."""
        match symbol:
            case Concatenation(parts):
                for part in reversed(parts):
                    rest = self.push(part, rest)
                return rest
            case Literal(b""):
                return rest
            case Conjunction(kept, barred):
                sides = (self._closed([self.push(one, self.end)]) for one in (*kept, *barred))
                return self._stack(symbol, self._state(tuple(sides)), rest)
        return self._stack(symbol, 0, rest)

    def derived(self, stack: Stack) -> list[Stack]:
        """The stacks that replace a stack without a byte being read."""
        symbol, rest = stack.symbol, stack.rest
        match symbol:
            case Reference(name):
                return [self.push(self.grammar.rules[name], rest)]
            case Choice(options):
                return [self.push(option, rest) for option in options]
            case Repeat(part, fewest, most):
                if most == 0:
                    return [rest]
                again = self._repeat(part, max(0, fewest - 1), None if most is None else most - 1)
                more = self.push(part, self.push(again, rest))
                return [more] if fewest else [rest, more]
            case Pattern(automaton):
                return [rest] if automaton.accepting[stack.at] else []
            case Conjunction(kept):
                sides = self._states[stack.at]
                ends = [self.end in side for side in sides]
                return [rest] if all(ends[: len(kept)]) and not any(ends[len(kept) :]) else []
        return []

    def next_bytes(self, stack: Stack) -> Collection[int]:
        """The bytes that a stack can read before anything else is derived."""
        match stack.symbol:
            case Literal(text):
                return (text[stack.at],)
            case Pattern(automaton):
                return automaton.steps[stack.at]
            case Conjunction(kept):
                sides = self._states[stack.at][: len(kept)]
                read = [{b for one in side for b in self.next_bytes(one)} for side in sides]
                return set.intersection(*read)
        return ()

    def after(self, stack: Stack, byte: int) -> Stack | None:
        """The stack after a byte; None if it cannot be read."""
        symbol, at, rest = stack.symbol, stack.at, stack.rest
        match symbol:
            case Literal(text):
                if text[at] != byte:
                    return None
                return rest if at + 1 == len(text) else self._stack(symbol, at + 1, rest)
            case Pattern(automaton):
                step = automaton.steps[at].get(byte)
                return None if step is None else self._stack(symbol, step, rest)
            case Conjunction(kept):
                sides = tuple(
                    self._closed(
                        after for one in side if (after := self.after(one, byte)) is not None
                    )
                    for side in self._states[at]
                )
                if not all(sides[: len(kept)]):
                    return None
                return self._stack(symbol, self._state(sides), rest)
        return None

    def _closed(self, stacks: Iterable[Stack]) -> _Side:
        """These stacks and all that replace them, of which those that read a byte, or the end."""
        todo = list(stacks)
        seen = set(todo)
        while todo:
            for other in self.derived(todo.pop()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        reading = (Literal, Pattern, Conjunction)
        return frozenset(s for s in seen if s is self.end or isinstance(s.symbol, reading))

    def _state(self, sides: tuple[_Side, ...]) -> int:
        """The number of a conjunction's state: the possible stacks of each side."""
        if sides not in self._sides:
            self._sides[sides] = len(self._states)
            self._states.append(sides)
        return self._sides[sides]

    def _repeat(self, part: Symbol, fewest: int, most: int | None) -> Repeat:
        key = (id(part), fewest, most)
        if key not in self._repeats:
            self._repeats[key] = Repeat(part, fewest, most)
        return self._repeats[key]

    def _stack(self, symbol: Symbol, at: int, rest: Stack) -> Stack:
        key = (id(symbol), at, id(rest))
        if key not in self._stacks:
            if len(self._stacks) >= _MAX_STACKS:
                raise SearchGaveUp
            weight = rest.weight + self._weight(symbol, at)
            self._stacks[key] = Stack(symbol, at, rest, weight)
        return self._stacks[key]

    def _weight(self, symbol: Symbol, at: int) -> float:
        match symbol:
            case Literal(text):
                return sum(self.weights.of_bytes[byte] for byte in text[at:])
            case Pattern(automaton):
                return self.weights.of_states(automaton)[at]
            case Conjunction(kept):
                sides = self._states[at][: len(kept)]
                return max(min((one.weight for one in side), default=math.inf) for side in sides)
            case SpecialToken():
                return self.weights.of_token
        return self.weights.of(symbol)
