"""A vocabulary as a trie over sorted texts, whose nodes are made when they are visited."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentrt.base.vocabulary import Vocab
from agentrt.structured.vocabulary import PerVocab


@dataclass(slots=True, eq=False)
class TrieNode:
    """All tokens that begin with a text.

    Attributes:
        text: The text.
        first: Number of the first token in sorted order.
        end: Number after the last one.
        token: The token that is this text; None if there is none.
        share: Sum of `byte_shares` of the text.
    """

    text: bytes
    first: int
    end: int
    token: int | None
    share: float
    _children: dict[int, TrieNode | None] = field(default_factory=dict)
    _bytes: list[int] | None = None


@dataclass(slots=True, eq=False)
class TokenTrie:
    """The texts of a vocabulary.

    Attributes:
        texts: Texts of the tokens, sorted.
        ids: Token of each text.
        byte_shares: By byte: the smallest share of a token that it can be, one divided by the
            length of the longest token with it. A text takes no fewer tokens than their sum.
        root: The empty text.
    """

    texts: list[bytes]
    ids: list[int]
    byte_shares: list[float]
    root: TrieNode

    def child(self, node: TrieNode, byte: int) -> TrieNode | None:
        """The node one byte further; None if no token goes on so."""
        known = node._children
        if byte not in known:
            known[byte] = self._child(node, byte)
        return known[byte]

    def next_bytes(self, node: TrieNode) -> list[int]:
        """The bytes by which tokens go on after a node."""
        if node._bytes is None:
            length, at = len(node.text), node.first + (node.token is not None)
            found: list[int] = []
            while at < node.end:
                found.append(self.texts[at][length])
                child = self.child(node, found[-1])
                assert child is not None
                at = child.end
            node._bytes = found
        return node._bytes

    def _child(self, node: TrieNode, byte: int) -> TrieNode | None:
        text = node.text + bytes([byte])
        first = bisect_left(self.texts, text, node.first, node.end)
        if first == node.end or not self.texts[first].startswith(text):
            return None
        after = node.text + bytes([byte + 1]) if byte < 255 else None
        end = node.end if after is None else bisect_left(self.texts, after, first, node.end)
        token = self.ids[first] if self.texts[first] == text else None
        return TrieNode(text, first, end, token, node.share + self.byte_shares[byte])


def trie_of_texts(by_text: Mapping[bytes, int]) -> TokenTrie:
    """The trie of tokens by their texts."""
    longest = [1] * 256
    for text in by_text:
        for byte in set(text):
            longest[byte] = max(longest[byte], len(text))
    texts = sorted(by_text)
    shares = [1 / length for length in longest]
    root = TrieNode(b"", 0, len(texts), None, 0.0)
    return TokenTrie(texts, [by_text[text] for text in texts], shares, root)


def _build(vocab: Vocab) -> TokenTrie:
    by_text: dict[bytes, int] = {}
    for token, text in enumerate(vocab.token_bytes):
        if text and token not in vocab.eos_ids:
            by_text.setdefault(text, token)
    return trie_of_texts(by_text)


trie_of: PerVocab[TokenTrie] = PerVocab(_build)
"""The trie of a vocabulary; cached for the four used last."""
