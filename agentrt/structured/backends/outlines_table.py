"""A regex as a table of states over a vocabulary, built ahead by outlines-core.

The index is built with an end marker: every released version of the library drops a token that
leads from accepted text to text that is not accepted yet, and prefers the first alternative over
the longest. With a character after the pattern that no text contains, and the end token spelled as
that character, no accepted text is a prefix of another, which avoids both faults.

A start marker precedes the pattern: the library also builds the automaton that searches anywhere in
a text. Without a beginning that occurs nowhere else that automaton can double with each repetition
(`[ab][abc]{0,30}x`), though it is not used.

The table is small enough for exact distances to the end, by a backward search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from outlines_core import Index, Vocabulary

from agentrt.base.errors import ConstraintError
from agentrt.base.vocabulary import Vocab
from agentrt.structured.json_schema.regex_text import END_MARKER, START_MARKER
from agentrt.structured.matcher import MaskRow, row_of
from agentrt.structured.vocabulary import PerVocab

FAR = 1 << 30
"""Distance of states from which no end can be reached."""


@dataclass(frozen=True, slots=True, eq=False)
class TableState:
    """One state of the automaton.

    Attributes:
        tokens: Allowed tokens that lead to an end, ascending. [n]
        next_states: State after each token. [n]
        row: Their bitmask, end tokens included if the text is complete. [words]
        accepting: Whether the text may end here.
        distance: Minimum number of tokens to an accepting state.
        closing_token: Next token of the shortest path there; None if the state is accepting.
    """

    tokens: NDArray[np.int32]
    next_states: NDArray[np.int32]
    row: MaskRow
    accepting: bool
    distance: int
    closing_token: int | None

    def next_state(self, token: int) -> int | None:
        """The state after `token`; None if it is not allowed."""
        at = int(np.searchsorted(self.tokens, token))
        if at == len(self.tokens) or int(self.tokens[at]) != token:
            return None
        return int(self.next_states[at])


def shortest_path(states: list[TableState], state: int) -> list[int]:
    """The shortest tokens from a state to an accepting one; of equals, the first by id."""
    path: list[int] = []
    while (token := states[state].closing_token) is not None:
        path.append(token)
        target = states[state].next_state(token)
        assert target is not None
        state = target
    return path


def _vocabulary(vocab: Vocab) -> Vocabulary:
    by_text: dict[str | bytes, list[int]] = {}
    for token_id, text in enumerate(vocab.token_bytes):
        if text and token_id not in vocab.eos_ids:
            by_text.setdefault(text, []).append(token_id)
    by_text[END_MARKER.encode()] = list(vocab.eos_ids)
    by_text[START_MARKER.encode()] = [_start_id(vocab)]
    return Vocabulary(vocab.logits_size, by_text)  # the library's own end token is never used


def _start_id(vocab: Vocab) -> int:
    return vocab.logits_size + 1


index_vocabulary: PerVocab[Vocabulary] = PerVocab(_vocabulary)
"""The vocabulary in the form of outlines-core."""


def build_table(pattern: str, vocab: Vocab) -> list[TableState]:
    """The table of a regex; the state before the first token comes first.

    Raises:
        ConstraintError: The library does not support the regex, or it matches nothing.
    """
    try:
        index = Index(f"{START_MARKER}(?:{pattern}){END_MARKER}", index_vocabulary(vocab))
    except (ValueError, OverflowError) as wrong:
        raise ConstraintError(
            f"regex {pattern[:80]!r} does not compile: {str(wrong).splitlines()[0]}",
            hint="Use a regex without look-around and back-references",
        ) from None
    states = _states(index, vocab)
    if states[0].distance >= FAR:
        raise ConstraintError(
            f"regex {pattern[:80]!r} matches no text of this vocabulary",
            hint="Check it for anchors in the middle and for empty classes",
        )
    return states


def _states(index: Index, vocab: Vocab) -> list[TableState]:
    """The index as a table without dead ends. The initial state comes first."""
    transitions: dict[int, dict[int, int]] = index.get_transitions()
    final = index.get_final_states()
    outside = index.get_initial_state()
    initial = transitions[outside][_start_id(vocab)]
    names = [initial, *sorted(state for state in transitions if state not in (initial, outside))]
    names += sorted({n for t in transitions.values() for n in t.values()} - set(names))
    number = {name: at for at, name in enumerate(names)}
    eos = set(vocab.eos_ids)
    accepting = [any(transitions.get(n, {}).get(e) in final for e in eos) for n in names]
    edges: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
    for name in names:
        steps = sorted(
            (token, number[after])
            for token, after in transitions.get(name, {}).items()
            if token not in eos and token < vocab.size
        )
        table = np.array(steps, dtype=np.int32).reshape(-1, 2)
        edges.append((table[:, 0].copy(), table[:, 1].copy()))
    distance = _distances(edges, accepting)
    return [
        _state(tokens, after, distance, accepting[at], vocab)
        for at, (tokens, after) in enumerate(edges)
    ]


def _state(
    tokens: NDArray[np.int32],
    after: NDArray[np.int32],
    distance: NDArray[np.int32],
    accepting: bool,
    vocab: Vocab,
) -> TableState:
    alive = distance[after] < FAR
    tokens, after = tokens[alive], after[alive]
    allowed = np.append(tokens, vocab.eos_ids) if accepting else tokens
    row = row_of(allowed, vocab.logits_size)
    if accepting:
        return TableState(tokens, after, row, accepting, 0, None)
    if not len(tokens):
        return TableState(tokens, after, row, accepting, FAR, None)
    best = int(np.argmin(distance[after]))
    return TableState(
        tokens, after, row, accepting, int(distance[after[best]]) + 1, int(tokens[best])
    )


def _distances(
    edges: list[tuple[NDArray[np.int32], NDArray[np.int32]]], accepting: list[bool]
) -> NDArray[np.int32]:
    """Minimum number of tokens from each state to an accepting one, by a backward search.

    Returns:
        [states]
    """
    before: list[list[int]] = [[] for _ in edges]
    for at, (_, after) in enumerate(edges):
        for state in np.unique(after).tolist():
            before[state].append(at)
    distance = np.full(len(edges), FAR, dtype=np.int32)
    frontier = [at for at, ends in enumerate(accepting) if ends]
    steps = 0
    while frontier:
        reached = [at for at in frontier if distance[at] == FAR]
        distance[reached] = steps
        frontier = sorted({b for at in reached for b in before[at] if distance[b] == FAR})
        steps += 1
    return distance
