"""Replay of an output: an engine that cannot go on behind a lost output writes it anew.

The new output is compared with the one before. The equal beginning is swallowed, so that nothing is
handed on twice. An output that departs from the one before replaces it, as long as the program was
given nothing of the part that is different.
"""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.errors import OutputDiverged
from agentrt.program import Each
from agentrt.protocol.step_output import Delta, TokenLogprob
from agentrt.runtime.in_flight.in_flight import InFlight

SHOWN_CHARACTERS = 60


class Replay:
    """The second output of a request beside the first one.

    Args:
        first: A request that has the first output.

    Attributes:
        deltas: The second output, until it is through with the first one or departs from it.
        departed: Whether it has departed; then nothing of it is handed on any more.
    """

    def __init__(self, first: InFlight) -> None:
        self._before = first.raw_text
        self._ids = len(first.output_ids)
        self._matched = 0
        self._seen_ids: list[int] = []
        self._seen_logprobs: list[TokenLogprob] = []
        self.deltas: list[Delta] = []
        self.departed = False

    @property
    def complete(self) -> bool:
        """Whether the second output has all text of the first one."""
        return self._matched == len(self._before)

    @property
    def through(self) -> bool:
        """Whether it has all ids of the first one too, so that all that follows is new."""
        return self.complete and len(self._seen_ids) >= self._ids

    def push(self, delta: Delta) -> Delta | None:
        """The part of the second output that is new; None if there is none, or if it departs."""
        if self.departed:
            return None
        self.deltas.append(delta)
        known, text = self._before[self._matched :], delta.text
        if not (known.startswith(text) or text.startswith(known)):
            self.departed = True
            return None
        self._matched += min(len(known), len(text))
        self._seen_ids += delta.token_ids
        self._seen_logprobs += delta.logprobs
        if not self.complete:
            return None
        # An id may come before its text, so the ids of the first output may end elsewhere.
        new = replace(
            delta,
            text=text[len(known) :],
            reasoning="",
            token_ids=tuple(self._seen_ids[self._ids :]),
            logprobs=tuple(self._seen_logprobs[self._ids :]),
        )
        self._ids = max(self._ids, len(self._seen_ids))
        return new if new.text or new.token_ids else None


def divergence_of(request: InFlight, after: str) -> OutputDiverged | None:
    """The error of a request whose output departs from what its program was given, or None.

    Args:
        request: The request, with its first output.
        after: The second output so far.
    """
    gen, before = request.gen, request.raw_text
    offset = _common_length(before, after)
    asked_again = "its engine was lost and, asked again, wrote"
    handed_out = len(gen.items) if isinstance(gen, Each) else 0
    same = len(request.items_in(before[:offset])) if handed_out else 0
    if same < handed_out:
        item = request.items_in(before)[same]
        return OutputDiverged(
            f"{gen.label} had handed out item {same}, {_shown(item)}; {asked_again} "
            f"{_shown(after[offset:])} at character {offset}, inside that item",
            where=gen.site,
            item=same,
            offset=offset,
            before=item,
            after=after[offset:],
        )
    if gen.written.handed_on and (gen.written.chunks or gen.written.reasoning):
        return OutputDiverged(
            f"{gen.label} had handed on {len(before)} characters; {asked_again} "
            f"{_shown(after[offset:])} instead of {_shown(before[offset:])} at character {offset}",
            where=gen.site,
            offset=offset,
            before=before[offset:],
            after=after[offset:],
        )
    return None


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shown(text: str) -> str:
    cut = text[:SHOWN_CHARACTERS]
    return f"{cut!r}" if cut == text else f"{cut!r}..."
