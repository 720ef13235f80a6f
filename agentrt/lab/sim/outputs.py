"""The output of a simulated generation, known in advance and appended token by token."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import replace

from agentrt.base.ids import RequestId
from agentrt.protocol.step_output import Delta, StepDone


class GivenOutput:
    """The output of a call.

    Args:
        ids: The tokens.
        forced_tokens: Number of tokens that the grammar appends without a step of their own; they
            follow the others in even runs.
        formed: True if a grammar constrains it.
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
        """Number of steps from `length` on with one token each, up to the end or a mark."""
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
        drawn, forced = len(self._ids) - self.forced_tokens, self.forced_tokens
        # The j-th sampled token comes after j + j * forced // drawn tokens.
        at = bisect_right(range(drawn), length, key=lambda j: j + j * forced // drawn)
        return at + at * forced // drawn


def one_token_a_step(steps: list[StepDone], wanted: Container[RequestId]) -> list[StepDone]:
    """The output of equal steps that were computed at once, as single steps give it.

    Args:
        steps: Output of the steps; the last has all deltas.
        wanted: Requests whose deltas are spread over the steps; others keep them in the last.
    """
    *before, last = steps
    spread: list[list[Delta]] = []
    kept: list[Delta] = []
    for delta in last.deltas if before else ():
        if delta.request_id in wanted and len(delta.token_ids) == len(steps):
            spread.append(_tokens(delta))
        else:
            kept.append(delta)
    if not spread:
        return steps
    parts = list(zip(*spread, strict=True))
    found = [replace(one, deltas=part) for one, part in zip(before, parts, strict=False)]
    return [*found, replace(last, deltas=(*parts[-1], *kept))]


def _tokens(delta: Delta) -> list[Delta]:
    """A delta for each token; each but the first has one letter of the text."""
    ids, text = delta.token_ids, delta.text
    texts = [text[: len(text) - len(ids) + 1], *text[len(text) - len(ids) + 1 :]]
    return [replace(delta, token_ids=(id_,), text=one) for id_, one in zip(ids, texts, strict=True)]
