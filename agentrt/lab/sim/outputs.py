"""The output of a simulated generation: known beforehand, and appended token by token."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class GivenOutput:
    """Output of a call.

    Args:
        ids: The tokens.
        forced_tokens: How many of them the grammar appends without a step of their own; they follow
            the others in even runs.
        formed: Whether a grammar constrains it.
        marks: Lengths at which the arguments of a tool are complete.
    """

    __slots__ = ("_ids", "_marks", "forced_tokens", "formed")

    def __init__(
        self,
        ids: Sequence[int],
        forced_tokens: int = 0,
        marks: tuple[int, ...] = (),
        *,
        formed: bool = False,
    ) -> None:
        self._ids = ids
        self.formed = formed
        self.forced_tokens = min(forced_tokens, len(ids) - 1)
        self._marks = sorted(marks)

    def __len__(self) -> int:
        return len(self._ids)

    def append_to(self, tokens: list[int], prompt_tokens: int, draws: int) -> None:
        """Append the tokens of `draws` steps, forced tokens included."""
        length = len(tokens) - prompt_tokens
        if not self.forced_tokens:
            tokens += self._ids[length : length + draws]
            return
        for _ in range(draws):
            length = self._after(length)
        tokens += self._ids[len(tokens) - prompt_tokens : length]

    def plain_steps(self, length: int) -> int:
        """How many steps from `length` bring one token each, up to an end or a mark."""
        if self.forced_tokens:
            return 1
        left = len(self._ids) - length
        if self._marks:
            at = bisect_right(self._marks, length)
            if at < len(self._marks):
                return min(left, self._marks[at] - length)
        return left

    def _after(self, length: int) -> int:
        """The length after one more sampled token and the tokens that it forces."""
        whole, forced = len(self._ids), self.forced_tokens
        drawn = whole - forced
        # Behind the j-th token picked stand j + j * forced // drawn tokens.
        low, high = 0, drawn
        while low < high:
            middle = (low + high) // 2
            if middle + middle * forced // drawn <= length:
                low = middle + 1
            else:
                high = middle
        return low + low * forced // drawn
