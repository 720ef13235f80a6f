"""Rows of a draft model: tokens that are drawn ahead of their sequence, one behind the other.

Nothing of the sequence changes. Its grammar is forked, so that a draft is drawn under the masks
under which its tokens will be verified.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from agentrt.engine.kv.transfer import to_device
from agentrt.engine.sequence.sequence import Sequence
from agentrt.structured import ConstraintState, bitmask_words, fill_bitmasks


@dataclass(slots=True, eq=False)
class AheadRow:
    """A sequence with tokens that may follow it.

    Attributes:
        sequence: The sequence.
        token_ids: Tokens behind it.
    """

    sequence: Sequence
    token_ids: list[int] = field(default_factory=list)
    _state: ConstraintState | None = None

    def __post_init__(self) -> None:
        grammar = self.sequence.grammar
        self._state = None if grammar is None else grammar.fork_state()

    @property
    def state(self) -> ConstraintState | None:
        """State of the grammar behind the tokens; None if anything may follow."""
        return self._state

    def follow_given(self) -> bool:
        """Advance the grammar over the tokens; False if it does not allow all of them and more."""
        state = self._state
        if state is None:
            return True
        return state.advance(self.token_ids) == len(self.token_ids) and not state.must_stop()

    def append(self, token_id: int) -> bool:
        """Append a drawn token; False if nothing can be drawn behind it, -1 for none."""
        if token_id < 0:
            return False
        state = self._state
        if state is not None and state.advance([token_id]) != 1:
            return False
        self.token_ids.append(token_id)
        return state is None or not state.must_stop()


def mask_ahead(rows: Rows[AheadRow], logits: Tensor) -> Tensor | None:
    """`[rows, words]` int32 bits of the allowed tokens, or None if every row is free.

    A mask that cannot be filled leaves its row free: a wrong draft is rejected.

    Args:
        rows: Rows to draw for.
        logits: `[rows, logits_size]`, for their size and device.
    """
    states = [(one.state, at) for at, one in enumerate(rows) if one.state is not None]
    if not states:
        return None
    array = np.full((len(rows), bitmask_words(logits.shape[1])), -1, dtype=np.int32)
    for at in fill_bitmasks(states, array):
        array[at] = -1
    bitmask = torch.from_numpy(array)
    return bitmask if logits.is_cpu else to_device(bitmask, torch.int32, logits.device)
