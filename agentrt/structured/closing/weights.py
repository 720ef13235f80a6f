"""The least weight of any text of a symbol, by Knuth's generalization of Dijkstra's algorithm."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
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
from agentrt.structured.json_schema.byte_automaton import ByteAutomaton


@dataclass(slots=True, eq=False)
class LeastWeights:
    """Least weights of the symbols of one grammar.

    Args:
        grammar: The grammar.
        of_bytes: Weight of each byte, above 0. [256]
        of_token: Weight of a special token.

    Attributes:
        rules: Least weight of each rule; infinite if nothing fits it.
    """

    grammar: Grammar
    of_bytes: Sequence[float]
    of_token: float = 1.0
    rules: dict[str, float] = field(default_factory=dict)
    _automata: dict[int, list[float]] = field(default_factory=dict)
    _known: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        users: dict[str, list[str]] = {}
        for name, symbol in self.grammar.rules.items():
            for used in _references(symbol):
                users.setdefault(used, []).append(name)
        heap = [(self._of(symbol), name) for name, symbol in self.grammar.rules.items()]
        heapq.heapify(heap)
        while heap and heap[0][0] < math.inf:
            weight, name = heapq.heappop(heap)
            if name in self.rules:
                continue
            self.rules[name] = weight  # no rule that is left can be lighter
            for user in users.get(name, ()):
                if user not in self.rules:
                    heapq.heappush(heap, (self._of(self.grammar.rules[user]), user))
        self._known.clear()

    def of(self, symbol: Symbol) -> float:
        """The least weight of a symbol; infinite if nothing fits it."""
        if id(symbol) not in self._known:
            self._known[id(symbol)] = self._of(symbol)
        return self._known[id(symbol)]

    def of_states(self, automaton: ByteAutomaton) -> list[float]:
        """The least weight from each state of an automaton to an accepting one."""
        if id(automaton) not in self._automata:
            self._automata[id(automaton)] = _of_states(automaton, self.of_bytes)
        return self._automata[id(automaton)]

    def _of(self, symbol: Symbol) -> float:
        match symbol:
            case Literal():
                return sum(self.of_bytes[byte] for byte in symbol.text)
            case Pattern():
                return self.of_states(symbol.automaton)[0]
            case Reference():
                return self.rules.get(symbol.name, math.inf)
            case Concatenation():
                return sum(map(self._of, symbol.parts))
            case Choice():
                return min(map(self._of, symbol.options), default=math.inf)
            case Repeat():
                return symbol.fewest * self._of(symbol.part) if symbol.fewest else 0.0
            case SpecialToken():
                return self.of_token
            case Conjunction():
                return max(map(self._of, symbol.kept))  # a bound


def _references(symbol: Symbol) -> set[str]:
    match symbol:
        case Reference():
            return {symbol.name}
        case Concatenation():
            return set().union(*map(_references, symbol.parts))
        case Choice():
            return set().union(*map(_references, symbol.options))
        case Conjunction():
            return set().union(*map(_references, symbol.kept))
        case Repeat():
            return _references(symbol.part)
    return set()


def _of_states(automaton: ByteAutomaton, of_bytes: Sequence[float]) -> list[float]:
    before: list[dict[int, float]] = [{} for _ in automaton.steps]
    for state, row in enumerate(automaton.steps):
        for byte, after in row.items():
            known = before[after].get(state, math.inf)
            before[after][state] = min(known, of_bytes[byte])
    found = [math.inf] * len(automaton.steps)
    heap = [(0.0, state) for state, ends in enumerate(automaton.accepting) if ends]
    while heap:
        weight, state = heapq.heappop(heap)
        if weight < found[state]:
            found[state] = weight
            for earlier, step in before[state].items():
                heapq.heappush(heap, (weight + step, earlier))
    return found
