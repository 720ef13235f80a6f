"""Masks of all rows of a batch in one call."""

from __future__ import annotations

from collections.abc import Sequence

from llguidance import LLExecutor

from agentrt.constraints.budget import Budgeted
from agentrt.constraints.earley import EarleyState, lost_in_grammar
from agentrt.constraints.matcher import ConstraintState, MaskRows
from agentrt.errors import ConstraintError

_WORTH_THREADS = 8
"""Grammar rows from which on threads pay for themselves."""


class MaskPool:
    """Threads that compute masks. They start with the first batch that is worth it.

    Attributes:
        threads: How many.
    """

    def __init__(self, threads: int = 2) -> None:
        self.threads = threads
        self._executor: LLExecutor | None = None

    def fill(self, rows: Sequence[tuple[EarleyState, int]], mask: MaskRows) -> None:
        """Compute the rows natively, side by side."""
        if self._executor is None:
            self._executor = LLExecutor(self.threads)
        jobs = [(state.native, index) for state, index in rows]
        self._executor.unsafe_compute_mask_ptr(
            jobs, mask.ctypes.data, mask.shape[1] * mask.itemsize, mask.shape[0]
        )


def fill_masks(
    rows: Sequence[tuple[ConstraintState, int]], mask: MaskRows, pool: MaskPool | None = None
) -> dict[int, ConstraintError]:
    """Fill one mask row for each sequence.

    Args:
        rows: States, each with the index of its row. No state twice.
        mask: [rows, words] int32, contiguous. Rows that are not named stay as they are; a row
            whose state allows everything becomes all ones.
        pool: Threads for many rows; None computes them one by one.

    Returns:
        The rows that failed, with why: their requests end, the others go on.
    """
    failed: dict[int, ConstraintError] = {}
    grammars: list[tuple[EarleyState, int]] = []
    for state, index in rows:
        beneath = _beneath(state)
        if beneath is not None:
            grammars.append((beneath, index))
            continue
        try:
            if not state.fill_mask(mask[index]):
                mask[index] = -1
        except ConstraintError as wrong:
            failed[index] = wrong
    if pool is not None and len(grammars) >= _WORTH_THREADS and pool.threads > 1:
        pool.fill(grammars, mask)
        for state, index in grammars:
            if state.native.is_error():
                failed[index] = lost_in_grammar(state.native)
        return failed
    for state, index in grammars:
        try:
            state.fill_mask(mask[index])
        except ConstraintError as wrong:
            failed[index] = wrong
    return failed


def _beneath(state: ConstraintState) -> EarleyState | None:
    """The grammar's matcher, where the mask is just its own."""
    if isinstance(state, Budgeted):
        if state.tight:
            return None
        state = state.state
    return state if isinstance(state, EarleyState) and not state.ended else None
