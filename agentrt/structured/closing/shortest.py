"""The shortest text of a symbol: the fewest tokens of a vocabulary of single bytes."""

from __future__ import annotations

import functools

from agentrt.structured.closing.derivation import SearchGaveUp
from agentrt.structured.closing.fewest_tokens import FewestTokens
from agentrt.structured.closing.regex_rules import regex_symbol
from agentrt.structured.closing.symbols import Grammar, NotModeled
from agentrt.structured.closing.token_trie import TokenTrie, trie_of_texts


def shortest_match(pattern: str) -> str | None:
    """The shortest text that `pattern` matches as a whole, readable if there is a choice.

    None if it has no model, or matches nothing.
    """
    try:
        found = FewestTokens(Grammar(regex_symbol(pattern)), _bytes()).find()
    except (NotModeled, SearchGaveUp, RecursionError):
        return None
    return None if found is None else bytes(found).decode()


@functools.cache
def _bytes() -> TokenTrie:
    return trie_of_texts({bytes([byte]): byte for byte in range(256)})
