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

_ROUNDING = 1e-6
_Place = tuple[Stack, TrieNode]


@dataclass(slots=True, eq=False)
class FewestTokens:
    """A search over one grammar and vocabulary.

    Args:
        grammar: The grammar.
        trie: The vocabulary.
        most_states: Number of states to visit at most.

    Attributes:
        bound: No output has fewer tokens, as far as the search has come.
    """

    grammar: Grammar
    trie: TokenTrie
    most_states: int
    bound: int = 0
    _derivations: Derivations = field(init=False)
    _came: dict[_Place, tuple[_Place, int | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weights = LeastWeights(self.grammar, self.trie.byte_shares)
        self._derivations = Derivations(self.grammar, weights)

    def find(self) -> list[int] | None:
        """The fewest tokens of any output; None if nothing fits the grammar.

        Raises:
            SearchGaveUp: The search has visited too many states.
        """
        end, root = self._derivations.end, self.trie.root
        start = self._derivations.push(self.grammar.start, end)
        order = count()
        heap = [(0, start.weight, next(order), 0, start, root)]
        best = {(start, root): 0}
        done: set[_Place] = set()
        while heap:
            self.bound, _, _, tokens, stack, node = heapq.heappop(heap)
            here = (stack, node)
            if here in done:
                continue
            done.add(here)
            if stack is end and node is root:
                return self._path(here)
            if len(done) > self.most_states:
                raise SearchGaveUp
            for there, token in self._steps(stack, node):
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
        for byte in reads if len(reads) < len(goes_on) else goes_on:
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
