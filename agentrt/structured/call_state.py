"""State of one sequence in a tool set: the matcher of a head, or of the tool that is called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.segments import CallFrame
from agentrt.structured.backends.llguidance_backend import (
    BACKEND,
    LlguidanceState,
    SearchedConstraint,
)
from agentrt.structured.backends.llguidance_closing import find_completion
from agentrt.structured.call_grammars import HeadPlace
from agentrt.structured.call_sets import ToolSet
from agentrt.structured.matcher import MaskRow
from agentrt.structured.vocabulary import Alphabet

_RESTS_OF_LETTERS = [bytes([first, *[0x80] * more]) for first in (0x80, 0xA0) for more in range(3)]
"""Bytes of which one series completes any letter that has begun."""


@dataclass(slots=True, eq=False)
class MatchedStretch:
    """A stretch of the output under one matcher.

    Attributes:
        matcher: The matcher.
        place: HeadPlace of a head; None in a call.
        calls: Number of calls begun.
        tokens: Tokens that began in this stretch, end tokens included.
        text: Their text, in a head.
        opened_at: Where the name begins in `text`; None if no call is open.
    """

    matcher: LlguidanceState
    place: HeadPlace | None
    calls: int
    tokens: list[int] = field(default_factory=list)
    text: bytearray = field(default_factory=bytearray)
    opened_at: int | None = None

    def fork(self) -> MatchedStretch:
        return MatchedStretch(
            self.matcher.fork(),
            self.place,
            self.calls,
            self.tokens[:],
            self.text[:],
            self.opened_at,
        )


@dataclass(slots=True, eq=False)
class CallsState:
    """State of one sequence: the head until a tool is named, then the call of that tool.

    At a change of matchers the texts written since the name began go to the new one. A token never
    spans the end of a head, so that the masks of one matcher are all that counts.

    Attributes:
        tools: The tool set.
        stretches: All stretches so far, so that tokens can be undone.
    """

    tools: ToolSet
    stretches: list[MatchedStretch]

    @classmethod
    def at_start(cls, tools: ToolSet) -> CallsState:
        """The state before the first token."""
        state = cls(tools, [])
        state._enter_head(HeadPlace.FIRST, 0)
        return state

    @property
    def matcher(self) -> LlguidanceState:
        """The matcher of the next token."""
        return self.stretches[-1].matcher

    @property
    def ended(self) -> bool:
        """Whether an end token was accepted."""
        return self.matcher.ended

    def fill_bitmask(self, row: MaskRow) -> bool:
        return self.matcher.fill_bitmask(row)

    def advance(self, tokens: Sequence[int]) -> int:
        for accepted, token in enumerate(tokens):
            here = self.stretches[-1]
            if here.matcher.advance((token,)) != 1:
                return accepted
            here.tokens.append(token)
            if not here.matcher.ended:
                self._change_matcher(here, token)
        return len(tokens)

    def rollback(self, count: int) -> None:
        while count:
            here = self.stretches[-1]
            undone = min(count, len(here.tokens))
            if not undone:
                if len(self.stretches) == 1:
                    raise ValueError(f"cannot undo {count} tokens")
                self.stretches.pop()
                continue
            here.matcher.rollback(undone)
            del here.tokens[-undone:]
            if here.place is not None:
                here.text = bytearray(self._text_of(here.tokens))
                if here.opened_at is not None and here.opened_at > len(here.text):
                    here.opened_at = None
            count -= undone

    def fork(self) -> CallsState:
        return CallsState(self.tools, [stretch.fork() for stretch in self.stretches])

    def forced_tokens(self, limit: int) -> list[int]:
        return self.matcher.forced_tokens(limit)

    def forced_text(self) -> bytes:
        return self.matcher.forced_text()

    def completion(self, limit: int) -> list[int] | None:
        found = self._end_of_call(limit) or self._out_of_text(limit)
        return found or find_completion(self, limit, self.tools.alphabet)

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        ahead = self.fork()
        return ahead.advance(tokens) == len(tokens) and ahead.can_stop()

    def can_stop(self) -> bool:
        return self.matcher.can_stop()

    def must_stop(self) -> bool:
        return self.matcher.must_stop()

    def _end_of_call(self, limit: int) -> list[int] | None:
        """The end of a call whose last argument has ended; a search may begin another one."""
        here, frame = self.stretches[-1], self.tools.frame
        if frame.frame.argument is None or here.place is not None:
            return None
        for ending in self.tools.endings(here.calls):
            end = self.tools.alphabet.tokenize_pieces(frame.pieces(frame.frame.after + ending))
            if len(end) <= limit and self.reaches_end(end):
                return end
        return None

    def _out_of_text(self, limit: int) -> list[int] | None:
        """A completion that first ends the bare text of an argument, which a search does not find.

        Returns:
            None if no such text is open, or no completion was found.
        """
        argument = self.tools.frame.frame.argument
        if argument is None or self.stretches[-1].place is not None:
            return None
        for ending in self._ends_of_text(argument.after):
            ahead = self.fork()
            if ahead.advance(ending) == len(ending):
                rest = ahead.completion(limit - len(ending))
                return None if rest is None else ending + rest
        return None

    def _ends_of_text(self, after: str) -> Iterator[list[int]]:
        """The ends of a bare text: what it may lack of its last letter, or of `after`."""
        alphabet, cut = self.tools.alphabet, self.tools.frame.pieces(after)
        letters = cut[0].encode() if isinstance(cut[0], str) else b""
        tokens = alphabet.tokenize_pieces(cut[1:] if letters else cut)
        for begun in range(len(letters) or 1):
            yield alphabet.tokenize(letters[begun:]) + tokens
        for rest in _RESTS_OF_LETTERS:
            yield alphabet.tokenize(rest + letters) + tokens

    def _change_matcher(self, here: MatchedStretch, token: int) -> None:
        """Enter a call whose tool is named, or a head behind a call."""
        if here.place is None:
            if here.matcher.native.is_stopped():
                self._leave_call(here)
        elif here.place is not HeadPlace.TAIL:
            here.text += self._text_of((token,))
            self._find_name(here)

    def _leave_call(self, here: MatchedStretch) -> None:
        again = self.tools.frame.again.encode()
        endings = self.tools.endings(here.calls)
        if again and self.tools.frame.again in endings:
            last = self._text_of(here.tokens[-len(again) :])
            if last.endswith(again):
                return self._enter_head(HeadPlace.NAME, here.calls)
        place = self.tools.place_after(here.calls)
        if place is not None:
            self._enter_head(place, here.calls)

    def _find_name(self, here: MatchedStretch) -> None:
        if here.opened_at is None:
            here.opened_at = self._opening_end(here)
        if here.opened_at is None:
            return
        begun = bytes(here.text[here.opened_at :])
        named = self.tools.candidates(begun)
        whole = [name for name in named if begun.startswith(name)]
        if len(named) == 1 and (here.place is HeadPlace.NAME or self.tools.tells_early):
            whole = named
        if whole:
            self._enter_call(max(whole, key=len), begun, here.calls + 1)

    def _opening_end(self, here: MatchedStretch) -> int | None:
        """Where the name of a call begins in the text of a head; None if none is open."""
        if here.place is HeadPlace.NAME:
            return 0
        opening = self.tools.frame.opening.encode()
        if not self.tools.spec.text:
            return len(opening) if here.text.startswith(opening) else None
        longest = self.tools.alphabet.longest_bytes
        at = here.text.find(opening, max(0, len(here.text) - len(opening) - longest))
        return None if at < 0 else at + len(opening)

    def _enter_call(self, named: bytes, begun: bytes, calls: int) -> None:
        try:
            written = self.tools.frame.pieces(begun.decode())
        except UnicodeDecodeError:
            return  # in the middle of a letter
        matcher = self.tools.call(named, calls).start()
        tokens = self.tools.alphabet.tokenize_pieces(written)
        if matcher.advance(tokens) != len(tokens):
            raise ValueError(f"the grammar of a tool refuses its name: {begun!r}")
        self.stretches.append(MatchedStretch(matcher, None, calls))

    def _enter_head(self, place: HeadPlace, calls: int) -> None:
        matcher = self.tools.head(place).start()
        at_text = place is HeadPlace.FIRST and self.tools.spec.text
        self.stretches.append(MatchedStretch(matcher, HeadPlace.TEXT if at_text else place, calls))
        self._find_name(self.stretches[-1])

    def _text_of(self, tokens: Sequence[int]) -> bytes:
        return b"".join(map(self.tools.bytes_of, tokens))


class CallsConstraint(SearchedConstraint):
    """Calls of a set of tools, compiled for one vocabulary.

    Args:
        spec: Spec of kind `calls`.
        frame: Frame of the model's calls.
        alphabet: The vocabulary.

    Attributes:
        is_costly: Whether masks may take long.

    Raises:
        ConstraintError: A part does not compile within the limits.
    """

    backend = BACKEND

    def __init__(self, spec: ConstraintSpec, frame: CallFrame, alphabet: Alphabet) -> None:
        super().__init__(alphabet)
        self._tools = ToolSet(spec, frame, alphabet)
        self.size_bytes = self._tools.size_bytes
        self.is_costly = self._tools.is_costly

    def start(self) -> CallsState:
        return CallsState.at_start(self._tools)

    def guess(self) -> list[int] | None:
        """A short output found without the grammar."""
        return self._tools.guess()
