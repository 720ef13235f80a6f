"""A regex as a table of states over a vocabulary, made ahead by outlines-core.

The index is built with an end marker: every released version of the library drops a token that
leads from accepted text to text that is not accepted yet, and prefers the first alternative over
the longest. With a character behind the pattern that no text contains, and the end token spelled
as that character, no accepted text is the beginning of another, and both faults are out of play.

A start marker stands before the pattern: the library also builds the automaton that searches
anywhere in a text, and without a beginning that occurs nowhere else that one can double with each
repetition (`[ab][abc]{0,30}x`), though nobody asks for it.

The table is small enough to know exact distances to the end by a search backwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from outlines_core import Index, Vocabulary

from agentrt.base.errors import ConstraintError
from agentrt.base.vocabulary import Vocab
from agentrt.structured.matcher import MaskRow, mask_words
from agentrt.structured.vocabulary import PerVocab

END_MARKER = "\U0010ffff"
"""A noncharacter that stands for the end of the text."""

START_MARKER = "\U0010fffe"
"""A noncharacter that stands for its beginning."""

FAR = 1 << 30
"""Distance of places from which no end can be reached."""


@dataclass(frozen=True, slots=True, eq=False)
class TableState:
    """One state of the automaton.

    Attributes:
        tokens: That may come next and lead on to an end, ascending. [n]
        next_places: Where each leads. [n]
        row: Their mask, end tokens among them where the text is whole. [words]
        whole: Whether the text may end here.
        distance: Fewest tokens to a place that is whole.
        onward: The token on the shortest way; None where the text is whole.
    """

    tokens: NDArray[np.int32]
    next_places: NDArray[np.int32]
    row: MaskRow
    whole: bool
    distance: int
    onward: int | None


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
"""The vocabulary for outlines-core."""


def build_places(pattern: str, vocab: Vocab) -> list[TableState]:
    """The table of a regex; the place before the first token comes first.

    Raises:
        ConstraintError: The library does not take the regex, or it matches nothing.
    """
    try:
        index = Index(f"{START_MARKER}(?:{pattern}){END_MARKER}", index_vocabulary(vocab))
    except (ValueError, OverflowError) as wrong:
        raise ConstraintError(
            f"regex {pattern[:80]!r} does not compile: {str(wrong).splitlines()[0]}",
            hint="Use a regex without look-around and back-references",
        ) from None
    places = _places(index, vocab)
    if places[0].distance >= FAR:
        raise ConstraintError(
            f"regex {pattern[:80]!r} matches no text of this vocabulary",
            hint="Check it for anchors in the middle and for empty classes",
        )
    return places


def _places(index: Index, vocab: Vocab) -> list[TableState]:
    """The index as a table, from which dead ends are gone. The initial state comes first."""
    transitions: dict[int, dict[int, int]] = index.get_transitions()
    final = index.get_final_states()
    outside = index.get_initial_state()
    initial = transitions[outside][_start_id(vocab)]
    names = [initial, *sorted(state for state in transitions if state not in (initial, outside))]
    names += sorted({n for t in transitions.values() for n in t.values()} - set(names))
    number = {name: at for at, name in enumerate(names)}
    eos = set(vocab.eos_ids)
    whole = [any(transitions.get(n, {}).get(e) in final for e in eos) for n in names]
    edges: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
    for name in names:
        steps = sorted(
            (token, number[onto])
            for token, onto in transitions.get(name, {}).items()
            if token not in eos and token < vocab.size
        )
        table = np.array(steps, dtype=np.int32).reshape(-1, 2)
        edges.append((table[:, 0].copy(), table[:, 1].copy()))
    distance = _distances(edges, whole)
    return [
        _place(tokens, onto, distance, whole[at], vocab) for at, (tokens, onto) in enumerate(edges)
    ]


def _place(
    tokens: NDArray[np.int32],
    onto: NDArray[np.int32],
    distance: NDArray[np.int32],
    whole: bool,
    vocab: Vocab,
) -> TableState:
    alive = distance[onto] < FAR
    tokens, onto = tokens[alive], onto[alive]
    bits = np.zeros(mask_words(vocab.logits_size) * 32, dtype=np.uint8)
    bits[tokens] = 1
    if whole:
        bits[list(vocab.eos_ids)] = 1
    row = np.packbits(bits, bitorder="little").view(np.int32)
    if whole:
        return TableState(tokens, onto, row, whole, 0, None)
    if not len(tokens):
        return TableState(tokens, onto, row, whole, FAR, None)
    best = int(np.argmin(distance[onto]))
    return TableState(tokens, onto, row, whole, int(distance[onto[best]]) + 1, int(tokens[best]))


def _distances(
    edges: list[tuple[NDArray[np.int32], NDArray[np.int32]]], whole: list[bool]
) -> NDArray[np.int32]:
    """Fewest tokens from each place to a whole text, by a search backwards.

    Returns:
        [places]
    """
    before: list[list[int]] = [[] for _ in edges]
    for at, (_, onto) in enumerate(edges):
        for place in np.unique(onto).tolist():
            before[place].append(at)
    distance = np.full(len(edges), FAR, dtype=np.int32)
    border = [at for at, ends in enumerate(whole) if ends]
    steps = 0
    while border:
        fresh = [at for at in border if distance[at] == FAR]
        distance[fresh] = steps
        border = sorted({b for at in fresh for b in before[at] if distance[b] == FAR})
        steps += 1
    return distance
