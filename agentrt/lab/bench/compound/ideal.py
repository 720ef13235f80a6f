"""What a cache that never forgets would have to compute: every distinct prefix once.

Prompts are walked part by part through one tree for all programs of an engine, in the order in
which they are played; what a model puts out is in the tree without having been computed as prompt.
Lengths are those of the trace, without what a template adds.
"""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.lab.workloads.trace import OutputOf, Part, Piece, ProgramTrace, TraceCall

_ROOT = 0


@record
class NewPart:
    """Part of a prompt that nobody has computed before.

    Attributes:
        place: Which of all parts of the prompt.
        tokens: Of it.
        needs: The node whose output or result it is; "" where it is known from the start.
    """

    place: int
    tokens: int
    needs: str


@record
class CallShare:
    """What one call adds to the tree.

    Attributes:
        prompt_tokens: Of its prompt.
        new: Parts of it that were not there.
    """

    prompt_tokens: int
    new: tuple[NewPart, ...]

    @property
    def new_tokens(self) -> int:
        """All of them."""
        return sum(part.tokens for part in self.new)


class PrefixTree:
    """Every prefix that was ever computed."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, str], int] = {}

    def add(self, program: ProgramTrace) -> dict[str, CallShare]:
        """Walk all calls of a program; what each of them adds, by name."""
        outputs = {call.name: call.output_tokens for call in program.calls()}
        return {call.name: self._call(program, call, outputs) for call in program.calls()}

    def _call(self, program: ProgramTrace, call: TraceCall, outputs: dict[str, int]) -> CallShare:
        at, place, total = _ROOT, 0, 0
        new: list[NewPart] = []
        for role, message in call.prompt:
            at, _ = self._step(at, f"<{role}>")
            for part in message:
                key, tokens, needed = _told(program, part, outputs)
                at, was_new = self._step(at, key)
                total += tokens
                if was_new:
                    new.append(NewPart(place, tokens, needed))
                place += 1
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


def _told(program: ProgramTrace, part: Part, outputs: dict[str, int]) -> tuple[str, int, str]:
    """Key, length, and the node that has to end before it is known."""
    if isinstance(part, Piece):
        return f"text {part.key}", part.tokens, ""
    if isinstance(part, OutputOf):
        return f"{program.name}/{part.call}", outputs[part.call], part.call
    return f"{program.name}/{part.tool}", part.tokens, part.tool
