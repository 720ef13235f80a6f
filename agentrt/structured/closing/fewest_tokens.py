"""The output with the fewest tokens, by an A* search over derivations and tokens at once.

A state is what is still to be derived, and the text of the token that has begun, as a node of the
vocabulary's trie. A step derives, or reads a byte. The estimate of the tokens to come is a lower
bound: the least weight of the stack, each byte weighing its smallest share of a token. So the first
complete output has the fewest tokens of any.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from agentrt.structured.closing.derivation import Derivations, SearchGaveUp, Stack
from agentrt.structured.closing.symbols import Grammar, SpecialToken
from agentrt.structured.closing.token_trie import TokenTrie, TrieNode
from agentrt.structured.closing.weights import LeastWeights

_MAX_STEPS = 100_000
"""Half a second or so. No clock ends a search, since what it finds would depend on other load."""
_ROUNDING = 1e-6
_READABLE = dict.fromkeys((*b"a1A0", *range(ord("a"), ord("z")), *range(32, 127), *range(256)))
_RANKS = {byte: rank for rank, byte in enumerate(_READABLE)}
"""Ranks of bytes: readable ones are tried first, and so win among outputs of equal length."""
_Place = tuple[Stack, TrieNode]


@dataclass(slots=True, eq=False)
class FewestTokens:
    """A search over one grammar and vocabulary.

    Args:
        grammar: The grammar.
        trie: The vocabulary.

    Attributes:
        bound: No output has fewer tokens, as far as the search has come.
    """

    grammar: Grammar
    trie: TokenTrie
    bound: int = 0
    _derivations: Derivations = field(init=False)
    _came: dict[_Place, tuple[_Place, int | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weights = LeastWeights(self.grammar, self.trie.byte_shares)
        self._derivations = Derivations(self.grammar, weights)

    def find(self) -> list[int] | None:
        """The fewest tokens of any output; None if nothing fits the grammar.

        Raises:
            SearchGaveUp: The search has taken too many steps.
        """
        end, root = self._derivations.end, self.trie.root
        start = self._derivations.push(self.grammar.start, end)
        order = count()
        heap = [(0, start.weight, next(order), 0, start, root)]
        best = {(start, root): 0}
        done: set[_Place] = set()
        steps = 0
        while heap:
            self.bound, _, _, tokens, stack, node = heapq.heappop(heap)
            here = (stack, node)
            if here in done:
                continue
            done.add(here)
            if steps > _MAX_STEPS:
                raise SearchGaveUp
            if stack is end and node is root:
                return self._path(here)
            for there, token in self._steps(stack, node):
                steps += 1
                spent = tokens + (token is not None)
                left = there[0].weight + there[1].share
                if left == math.inf or best.get(there, spent + 1) <= spent:
                    continue
                best[there], self._came[there] = spent, (here, token)
                bound = spent + math.ceil(left - _ROUNDING)
                heapq.heappush(heap, (bound, left, next(order), spent, *there))
        return None

    def _steps(self, stack: Stack, node: TrieNode) -> Iterator[tuple[_Place, int | None]]:
        """The states after one step, each with the token that ends there."""
        derivations, trie = self._derivations, self.trie
        if isinstance(stack.symbol, SpecialToken):
            if node is trie.root:
                yield (stack.rest, node), stack.symbol.ids[0]
            return
        for other in derivations.derived(stack):
            yield (other, node), None
        reads, goes_on = derivations.next_bytes(stack), trie.next_bytes(node)
        for byte in sorted(reads if len(reads) < len(goes_on) else goes_on, key=_RANKS.__getitem__):
            child = trie.child(node, byte)
            after = derivations.after(stack, byte) if child is not None else None
            if child is None or after is None:
                continue
            yield (after, child), None
            if child.token is not None:
                yield (after, trie.root), child.token

    def _path(self, here: _Place) -> list[int]:
        tokens: list[int] = []
        while here in self._came:
            here, token = self._came[here]
            if token is not None:
                tokens.append(token)
        return tokens[::-1]
