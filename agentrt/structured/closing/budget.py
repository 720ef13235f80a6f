"""Always a whole text within `max_tokens`: a verified way to the end is held at every step.

The witness is a list of tokens that the matcher itself has taken to a whole text. A token is
accepted only if from behind it a witness fits the tokens left. So the output can always be closed,
and nothing is ever repaired afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from agentrt.base.errors import ConstraintError
from agentrt.structured.backends.automaton import AutomatonState
from agentrt.structured.matcher import CompiledConstraint, ConstraintState, MaskRow, set_only

_TAILS = 8
"""How many tails of the old witness are tried before a search."""

WAYS_KEPT = 256

_Way = tuple[int, ...]


class EndPaths:
    """Ways to the end that searches found, by the way that was held before and what was taken then.

    A search walks a copy of the matcher and takes a hundred times longer than to ask whether what
    it found elsewhere leads to the end from here too. That is asked each time: a way is a guess.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[_Way, _Way], _Way] = OrderedDict()

    def guess(self, before: _Way, taken: _Way) -> _Way | None:
        """What was found where the same was held and the same was taken."""
        return self._kept.get((before, taken))

    def keep(self, before: _Way, taken: _Way, found: _Way) -> None:
        """Remember what a search found."""
        self._kept[before, taken] = found
        if len(self._kept) > WAYS_KEPT:
            self._kept.popitem(last=False)


_WAYS: WeakKeyDictionary[CompiledConstraint, EndPaths] = WeakKeyDictionary()
"""Of each constraint that is in use."""


class Budgeted:
    """A state that keeps within a number of tokens, the end token not counted.

    It is used like the state that it wraps. `advance` refuses also what would leave no room to
    close; then `fallback()` is the token that leads on towards the end.

    Attributes:
        left_tokens: How many tokens may still be taken.
        closes: Whether a way to the end is known; without one there is no guarantee.
        steered: Whether the budget has refused or narrowed anything.
    """

    __slots__ = ("_eos_ids", "_state", "_taken", "_ways", "_witness", "left_tokens", "steered")

    def __init__(
        self,
        state: ConstraintState,
        left_tokens: int,
        witness: Sequence[int] | None,
        eos_ids: tuple[int, ...],
        ways: EndPaths | None = None,
    ) -> None:
        self._state = state
        self._ways = EndPaths() if ways is None else ways
        self._witness = None if witness is None else tuple(witness)
        self._eos_ids = eos_ids
        self._taken: list[tuple[tuple[int, ...] | None, int]] = []  # witness, left before a token
        self.left_tokens = left_tokens
        self.steered = False

    @classmethod
    def start(cls, compiled: CompiledConstraint, max_tokens: int) -> Budgeted:
        """From the beginning of an output.

        Raises:
            ConstraintError: No whole text fits into `max_tokens`.
        """
        shortest = compiled.shortest
        if shortest is not None and len(shortest) > max_tokens:
            raise ConstraintError(
                f"the output needs at least {len(shortest)} tokens, max_tokens is {max_tokens}",
                hint=f"Give max_tokens={len(shortest)} or more",
            )
        ways = _WAYS.setdefault(compiled, EndPaths())
        return cls(compiled.start(), max_tokens, shortest, compiled.eos_ids, ways)

    @property
    def closes(self) -> bool:
        return self._witness is not None

    @property
    def state(self) -> ConstraintState:
        """The state beneath."""
        return self._state

    @property
    def witness(self) -> tuple[int, ...] | None:
        """Tokens that lead to a whole text from here."""
        return self._witness

    @property
    def tight(self) -> bool:
        """Whether only the witness fits the tokens left."""
        return self._witness is not None and len(self._witness) >= self.left_tokens

    def fallback(self) -> int:
        """The next token on the way to the end; an end token when the text is whole."""
        if self._witness is None:
            raise ConstraintError(
                "no valid end is known from here", hint="Raise max_tokens, or simplify the type"
            )
        return self._witness[0] if self._witness else self._eos_ids[0]

    def close(self) -> None:
        """From now on only towards the end (a deadline is near)."""
        if self._witness is not None:
            self.left_tokens = min(self.left_tokens, len(self._witness))

    def fill_mask(self, row: MaskRow) -> bool:
        if self.tight:
            self.steered = self.steered or not self._state.must_stop()
            set_only(row, self._eos_ids if not self._witness else (self.fallback(),))
            return True
        if isinstance(self._state, AutomatonState):
            self.steered = self._state.fill_mask_within(row, self.left_tokens) or self.steered
            return True
        return self._state.fill_mask(row)

    def advance(self, tokens: Sequence[int]) -> int:
        """Take tokens; stops at the first that the grammar or the budget refuses."""
        count = self._state.advance(tokens)
        taken = tuple(tokens[:count])
        if not taken:
            return 0
        witness = self._witness_behind(taken)
        if witness is not None or self._witness is None:
            self._note(taken, witness)
            return count
        self._state.rollback(count)
        self.steered = True
        done = 0
        while count > 1 and done < count and self.advance(taken[done : done + 1]):
            done += 1
        return done

    def rollback(self, count: int) -> None:
        self._state.rollback(count)
        if count:
            self._witness, self.left_tokens = self._taken[-count]
            del self._taken[-count:]

    def fork(self) -> Budgeted:
        twin = Budgeted(
            self._state.fork(), self.left_tokens, self._witness, self._eos_ids, self._ways
        )
        twin._taken = list(self._taken)
        twin.steered = self.steered
        return twin

    def forced(self, limit: int) -> list[int]:
        return self._state.forced(min(limit, self.left_tokens))

    def forced_text(self) -> bytes:
        return self._state.forced_text()

    def completion(self, limit: int) -> list[int] | None:
        if self._witness is not None and len(self._witness) <= limit:
            return list(self._witness)
        return self._state.completion(limit)

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        return len(tokens) <= self.left_tokens and self._state.reaches_end(tokens)

    def can_stop(self) -> bool:
        return self._state.can_stop()

    def must_stop(self) -> bool:
        return self._state.must_stop()

    def _witness_behind(self, taken: tuple[int, ...]) -> tuple[int, ...] | None:
        """A way to the end from where the state stands now, that fits what is left."""
        spent = self._spent(taken)
        left = self.left_tokens - spent
        if left < 0 or self._witness is None:
            return None
        if spent < len(taken) or self._state.can_stop():
            return ()
        old = self._witness
        if old[:spent] == taken:
            return old[spent:]
        for start in range(min(_TAILS, len(old))):
            tail = old[start:]
            if len(tail) <= left and self._state.reaches_end(tail):
                return tail
        known = self._ways.guess(old, taken)
        if known is not None and len(known) <= left and self._state.reaches_end(known):
            return known
        found = self._state.completion(left)
        if found is None:
            return None
        self._ways.keep(old, taken, tuple(found))
        return tuple(found)

    def _note(self, taken: tuple[int, ...], witness: tuple[int, ...] | None) -> None:
        """Remember what stood before each token, so that it can be undone."""
        spent = self._spent(taken)
        self._taken.append((self._witness, self.left_tokens))
        for done in range(1, len(taken)):
            rest = None if witness is None else taken[done:spent] + witness
            self._taken.append((rest, self.left_tokens - done))
        self._witness = witness
        self.left_tokens -= spent

    def _spent(self, taken: tuple[int, ...]) -> int:
        """Tokens that count: an end token does not."""
        return len(taken) - (taken[-1] in self._eos_ids)
