"""Token ids for texts of which only key and length are known: equal texts get equal ids."""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.base.errors import UsageError
from agentrt.base.ids import RunId
from agentrt.lab.workloads import OutputOf, Piece, TraceCall, TraceResult

END_ID = 0
"""Follows every message, like in templates."""

START_ID = 4
HEADER_IDS = {"system": 1, "user": 2, "assistant": 3}
_FIRST_ID = 16
_MOST_ID = 2**31 - 1
MESSAGE_TOKENS = 2
"""Tokens that a template adds to a message: its header and its end."""


class TokenIds:
    """Assigns every text a range of ids of its own, and every key its text.

    Ranges are disjoint, so that two prompts share exactly the tokens of the pieces that they share.
    All engines of a simulation use the same ids.

    Args:
        start_tokens: Tokens that a template writes before the first message.
    """

    def __init__(self, start_tokens: int = 0) -> None:
        self.start = (START_ID,) * start_tokens
        self._pieces: dict[tuple[str, ...], range] = {}
        self._of_run: dict[RunId, dict[tuple[str, ...], range]] = {}
        self._next = _FIRST_ID

    def piece(self, piece: Piece) -> range:
        """A text that may be part of many prompts.

        Raises:
            UsageError: The key belongs to a text of another length.
        """
        return self._range(self._pieces, (piece.key,), piece.tokens)

    def output(self, run_id: RunId, call: str, tokens: int) -> range:
        """The output of a call of a run."""
        return self._range(self._of_run.setdefault(run_id, {}), ("output", call), tokens)

    def result(self, run_id: RunId, tool: str, tokens: int) -> range:
        """The answer of a tool of a run."""
        known = self._of_run.setdefault(run_id, {})
        return self._range(known, ("result", tool, str(tokens)), tokens)

    def prompt(self, run_id: RunId, call: TraceCall, outputs: Mapping[str, int]) -> tuple[int, ...]:
        """The whole prompt of a call of a run.

        Args:
            run_id: Run of the call.
            call: The call.
            outputs: Length of the output of each call that the prompt quotes.
        """
        found = [*self.start]
        for role, message in call.prompt:
            found.append(HEADER_IDS[role])
            for part in message:
                match part:
                    case Piece():
                        found += self.piece(part)
                    case OutputOf():
                        found += self.output(run_id, part.call, outputs[part.call])
                    case TraceResult():
                        found += self.result(run_id, part.tool, part.tokens)
            found.append(END_ID)
        return (*found, HEADER_IDS["assistant"])

    def forget(self, run_id: RunId) -> None:
        """Drop the texts of a run that is over, which no prompt quotes again."""
        self._of_run.pop(run_id, None)

    def renew(self) -> None:
        """Give every key a new text from now on."""
        self._pieces.clear()
        self._of_run.clear()

    def _range(
        self, ranges: dict[tuple[str, ...], range], key: tuple[str, ...], tokens: int
    ) -> range:
        known = ranges.get(key)
        if known is None:
            if self._next + tokens > _MOST_ID:
                self._next = _FIRST_ID  # the caches have evicted these ids long ago
            known = ranges[key] = range(self._next, self._next + tokens)
            self._next += tokens
        elif len(known) != tokens:
            raise UsageError(
                f"the text {key[-1]!r} has {len(known)} tokens in one prompt and {tokens} in "
                "another",
                hint="Equal keys are equal text: give the other one a key of its own",
            )
        return known
