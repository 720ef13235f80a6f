"""A cache that never forgets: it computes every distinct prefix once.

Prompts are walked part by part through one tree for all programs of an engine, in the order in
which they are played; an output is in the tree without having been computed as a prompt. Lengths
are those of the trace, without the tokens of a template.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.base.record import record
from agentrt.lab.workloads.trace import OutputOf, Part, Piece, ProgramTrace, TraceCall

_ROOT = 0


@record
class NewPart:
    """Part of a prompt that has not been computed before.

    Attributes:
        tokens: Length.
        needs: Node that writes it; "" if it is known from the start.
    """

    tokens: int
    needs: str


@record
class CallShare:
    """The share of one call in the tree.

    Attributes:
        prompt_tokens: Length of its prompt.
        new: Parts of the prompt that were not there.
    """

    prompt_tokens: int
    new: tuple[NewPart, ...]

    @property
    def new_tokens(self) -> int:
        """Tokens that were not there."""
        return sum(part.tokens for part in self.new)


class PrefixTree:
    """Every prefix that was ever computed."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, str], int] = {}

    def add(self, program: ProgramTrace) -> dict[str, CallShare]:
        """Walk all calls of a program; returns the share of each by name."""
        outputs = {call.name: call.output_tokens for call in program.calls()}
        return {call.name: self._call(program, call, outputs) for call in program.calls()}

    def new_tokens(self, programs: Iterable[ProgramTrace]) -> int:
        """Walk all calls of programs; returns the prompt tokens that were not there."""
        shares = (share for program in programs for share in self.add(program).values())
        return sum(share.new_tokens for share in shares)

    def found_tokens(self, programs: Iterable[ProgramTrace], block_tokens: int) -> int:
        """Walk all calls of programs; returns the prompt tokens that a cache of blocks finds.

        A last block that is not full is computed again.
        """
        shares = (share for program in programs for share in self.add(program).values())
        found = (share.prompt_tokens - share.new_tokens for share in shares)
        return sum(tokens - tokens % block_tokens for tokens in found)

    def _call(self, program: ProgramTrace, call: TraceCall, outputs: dict[str, int]) -> CallShare:
        at, total = _ROOT, 0
        new: list[NewPart] = []
        for role, message in call.prompt:
            at, _ = self._step(at, f"<{role}>")
            for part in message:
                key, tokens, needed = _part(program, part, outputs)
                at, was_new = self._step(at, key)
                total += tokens
                if was_new:
                    new.append(NewPart(tokens, needed))
            at, _ = self._step(at, f"</{role}>")
        at, _ = self._step(at, "<assistant>")
        self._step(at, f"{program.name}/{call.name}")
        return CallShare(total, tuple(new))

    def _step(self, at: int, key: str) -> tuple[int, bool]:
        known = self._next.get((at, key))
        if known is not None:
            return known, False
        made = self._next[at, key] = len(self._next) + 1
        return made, True


def _part(program: ProgramTrace, part: Part, outputs: dict[str, int]) -> tuple[str, int, str]:
    """Key, length, and the node that has to end before the part is known."""
    if isinstance(part, Piece):
        return f"text {part.key}", part.tokens, ""
    if isinstance(part, OutputOf):
        return f"{program.name}/{part.call}", outputs[part.call], part.call
    return f"{program.name}/{part.tool}", part.tokens, part.tool
