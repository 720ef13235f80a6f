"""Masks of the rows behind draft tokens, filled before it is known which of them are drawn.

A copy of the grammar goes on over the draft. Its masks are those of the sequence itself, as long as
no token budget narrows them; a row without such a mask is drawn once its turn has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Rows
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from agentrt.engine.sampling.grammar_masks import GrammarMasks
from agentrt.engine.sequence.draft import Verification
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.reasoning import ReasoningState
from agentrt.engine.sequence.sequence import Sequence
from agentrt.structured import fill_bitmasks
from agentrt.structured.matcher import MaskRows


def mask_drafts(
    sequences: Rows[Sequence],
    drafted: Mapping[Sequence, Verification],
    masks: GrammarMasks,
    *,
    rows: int,
    row_budget_s: float,
) -> Tensor | None:
    """`[rows, words]` int32, the masks of all rows, those behind draft tokens included.

    Each verification is given the number of draft tokens behind which its rows are masked.

    Args:
        sequences: Sequences of the step.
        drafted: Drafts of some of them, with their first rows.
        masks: Masks of the sequences.
        rows: Number of rows.
        row_budget_s: Masks that take longer are filled apart from now on.
    """
    if masks.bitmask is None:
        for one in drafted.values():
            one.drawn_tokens = len(one.draft.token_ids)
        return None
    array: MaskRows = np.full((rows, masks.bitmask.shape[1]), -1, dtype=np.int32)
    own = masks.bitmask.numpy()
    row = 0
    for index, sequence in enumerate(sequences):
        array[row] = own[index]
        draft = drafted.get(sequence)
        grammar = sequence.grammar
        if draft is not None and grammar is None:
            draft.drawn_tokens = len(draft.draft.token_ids)
        elif draft is not None and grammar is not None and index not in masks.failed:
            began_s = perf_counter()
            draft.drawn_tokens = _fill(grammar, draft.draft.token_ids, array, row + 1)
            took_s = perf_counter() - began_s
            masks.seconds[index] += took_s
            if took_s > row_budget_s * max(1, draft.drawn_tokens):
                grammar.mask_place.is_apart = True
        row += 1 if draft is None else 1 + len(draft.draft.token_ids)
    return torch.from_numpy(array)


def _fill(
    grammar: GrammarState | ReasoningState, token_ids: Rows[int], array: MaskRows, first_row: int
) -> int:
    """Fill the masks behind draft tokens; the number of them, all before the first that fails."""
    if grammar.mask_place.is_slow or not grammar.masks_plainly:
        return 0
    state = grammar.fork_state()
    if state is None:
        return 0
    for at, token_id in enumerate(token_ids):
        row = first_row + at
        try:
            if state.advance([token_id]) != 1 or state.must_stop():
                return at
            failed = fill_bitmasks([(state, row)], array)
        except Exception:  # raised again once the row is drawn, if it comes to that
            return at
        if failed:
            return at
    return len(token_ids)
