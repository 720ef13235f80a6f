"""Closing: a search for tokens that complete a text from any state of its grammar.

A search, not a proof: it walks a copy of the matcher by forced tokens, else by the likeliest
closing byte; the matcher has accepted any result. If it finds nothing, the constraint counts as not
closable from there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from agentrt.base.errors import ConstraintError
from agentrt.structured.matcher import ConstraintState, MaskRow, allowed_ids, bitmask_words
from agentrt.structured.vocabulary import Alphabet

STEPS = (64, 512, 2048)
"""Limits of tokens in one walk, tried in turn: most ends are near, other walks go in circles."""

NO_LIMIT = 1 << 20
"""Limit for the shortest completion of any length."""

_STEPS_ON_THE_WAY = (64, 256)

MASKS_ON_THE_WAY = 256
"""Maximum number of masks of one search on the way: its row waits for the next token."""

PATIENCE_S = 1.0
"""Processor time of one search before the output; a grammar counts as not closable after that."""

_PATIENCE_ON_THE_WAY_S = 2.0
"""The same on the way, for grammars with masks that are slow.

A search in vain refuses a token, so time must not decide for grammars with quick masks, whose
searches take 5 ms: clocks of virtual processors jump by a quarter of a second under load.
"""

_FIXED = 2
_ROOMY = 4
_SHUFFLES = 4
_SHUFFLED_STEPS = 512
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_REST = b"0123456789" + _LETTERS + b" -_.:/@+"
_CLOSERS_FIRST = b'}]"\n,:' + _REST
_QUOTE_FIRST = b'"}]\n,:' + _REST
_SPACE_FIRST = b' )};]",:' + _REST
"""Order for languages other than JSON: lists end before the next word.

In indented JSON a line break leads to the end of a list, a comma to the next item.
"""

_IN_STRING = b"x\\ "
"""Bytes that JSON allows only inside of strings."""


def find_completion(state: ConstraintState, limit: int, alphabet: Alphabet) -> list[int] | None:
    """Tokens from `state` to a complete text, at most `limit`; None if none were found."""
    if state.can_stop():
        return []
    on_the_way = limit < NO_LIMIT  # a row waits then, and an older completion is known
    patience = _Patience(
        MASKS_ON_THE_WAY if on_the_way else NO_LIMIT,
        time.thread_time() + (_PATIENCE_ON_THE_WAY_S if on_the_way else PATIENCE_S),
    )
    for steps in _STEPS_ON_THE_WAY if on_the_way else STEPS:
        best = _best(state, limit, alphabet, steps, patience)
        if best is not None:
            return best if len(best) <= limit else None
        if steps >= limit * alphabet.longest_bytes:
            return None  # no spelling of a longer walk would fit
    return None


@dataclass(slots=True)
class _Patience:
    """The work that is left to one search.

    Attributes:
        masks: Number of masks.
        until_s: Processor time of the thread.
    """

    masks: int
    until_s: float

    def spend_mask(self) -> bool:
        """Whether another mask may be computed."""
        self.masks -= 1
        return self.masks >= 0 and time.thread_time() <= self.until_s


def _best(
    state: ConstraintState, limit: int, alphabet: Alphabet, steps: int, patience: _Patience
) -> list[int] | None:
    """The shortest of the walks; the first that is far within the limit suffices."""
    best: list[int] | None = None
    orders: list[Callable[[], bytes]]
    orders = [lambda: _CLOSERS_FIRST, lambda: _QUOTE_FIRST, lambda: _SPACE_FIRST]
    if steps <= (_STEPS_ON_THE_WAY[0] if limit < NO_LIMIT else _SHUFFLED_STEPS):
        orders += _shuffled_orders()
    for tried, order in enumerate(orders):
        if best is not None and (tried >= _FIXED or _ROOMY * len(best) <= limit < NO_LIMIT):
            break
        walk = _walk(state, order, alphabet, steps, patience)
        found = None if walk is None else _shortest_spelling(state, walk, alphabet)
        if found is not None and (best is None or len(found) < len(best)):
            best = found
    return best


def _shuffled_orders() -> list[Callable[[], bytes]]:
    """Orders drawn anew at each step, with a fixed seed."""
    dice = random.Random(0)

    def order() -> bytes:
        rest = bytearray(_REST)
        dice.shuffle(rest)
        return b'"}]\n,:' + rest

    return [order] * _SHUFFLES


def _walk(
    state: ConstraintState,
    order: Callable[[], bytes],
    alphabet: Alphabet,
    steps: int,
    patience: _Patience,
) -> list[int] | None:
    """Walk a copy until the text is complete; None if the walk is too long or fails."""
    row = np.zeros(bitmask_words(alphabet.vocab.logits_size), dtype=np.int32)
    path: list[int] = []
    with suppress(ConstraintError):  # the parser failed on this walk, not on the constraint
        here = state.fork()
        while not here.can_stop():
            if len(path) >= steps or not patience.spend_mask():
                return None
            tokens = here.forced_tokens(steps) or _next(here, row, order(), alphabet)
            if not tokens or here.advance(tokens) != len(tokens):
                return None
            path += tokens
        return path
    return None


def _next(state: ConstraintState, row: MaskRow, order: bytes, alphabet: Alphabet) -> list[int]:
    """The first byte in `order` that is allowed next, as a token; else the shortest token."""
    state.fill_bitmask(row)
    ids = alphabet.byte_ids
    in_string = any(_has(row, ids[byte]) for byte in _IN_STRING)
    for byte in b'"' + order if in_string else order:
        if _has(row, ids[byte]):
            token = ids[byte]
            assert token is not None
            return [token]
    eos = set(alphabet.vocab.eos_ids)
    table = alphabet.vocab.token_bytes
    rest = [t for t in allowed_ids(row) if t not in eos and t < len(table)]
    return [min(rest, key=lambda token: (len(table[token]), token))] if rest else []


def _shortest_spelling(state: ConstraintState, path: list[int], alphabet: Alphabet) -> list[int]:
    """The same text in fewer tokens if the tokenizer knows them and the grammar accepts them."""
    text = alphabet.bytes_of(path)
    if text is None:
        return path
    spelled = alphabet.tokenize(text)
    shorter = len(spelled) < len(path)
    return spelled if shorter and state.reaches_end(spelled) else path


def _has(row: MaskRow, token: int | None) -> bool:
    return token is not None and bool((int(row[token >> 5]) >> (token & 31)) & 1)
