"""Closing within `max_tokens`: a verified completion is held at every step.

The completion (witness) is a list of tokens that the matcher has accepted up to a complete text. A
token is accepted only if a completion after it fits in the tokens left. So the output can always be
closed, and nothing is ever repaired afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from agentrt.base.errors import ConstraintError
from agentrt.structured.backends.automaton import AutomatonState
from agentrt.structured.matcher import CompiledConstraint, ConstraintState, MaskRow, set_only

_TAILS = 8
"""Number of tails of the old completion to try before a search."""

MAX_PATHS = 256

_Path = tuple[int, ...]


class EndPaths:
    """Completions found by searches, by the completion held before and the tokens accepted since.

    A search walks a copy of the matcher and takes a hundred times longer than checking whether an
    earlier result leads to the end from here too. Each use is checked: a stored path is a guess.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[_Path, _Path], _Path] = OrderedDict()

    def find(self, before: _Path, accepted: _Path) -> _Path | None:
        """The result found in the same situation."""
        return self._found.get((before, accepted))

    def add(self, before: _Path, accepted: _Path, found: _Path) -> None:
        """Store the result of a search."""
        self._found[before, accepted] = found
        if len(self._found) > MAX_PATHS:
            self._found.popitem(last=False)


_PATHS: WeakKeyDictionary[CompiledConstraint, EndPaths] = WeakKeyDictionary()
"""Paths of each constraint in use."""


class Budgeted:
    """A state that keeps within a number of tokens, the end token not counted.

    Used like the wrapped state. `advance` also refuses tokens that would leave no room to close;
    then `fallback()` is the next token towards the end.

    Attributes:
        left_tokens: Number of tokens that may still be accepted.
        closes: Whether a completion is known; without one there is no guarantee.
        steered: Whether the budget has refused or narrowed anything.
    """

    __slots__ = ("_eos_ids", "_history", "_paths", "_state", "_witness", "left_tokens", "steered")

    def __init__(
        self,
        state: ConstraintState,
        left_tokens: int,
        witness: Sequence[int] | None,
        eos_ids: tuple[int, ...],
        paths: EndPaths | None = None,
    ) -> None:
        self._state = state
        self._paths = EndPaths() if paths is None else paths
        self._witness = None if witness is None else tuple(witness)
        self._eos_ids = eos_ids
        self._history: list[tuple[_Path | None, int]] = []  # witness and left_tokens before each
        self.left_tokens = left_tokens
        self.steered = False

    @classmethod
    def start(cls, compiled: CompiledConstraint, max_tokens: int) -> Budgeted:
        """The state at the beginning of an output.

        Raises:
            ConstraintError: No complete text fits in `max_tokens`.
        """
        shortest = compiled.shortest
        if shortest is not None and len(shortest) > max_tokens:
            raise ConstraintError(
                f"the output needs at least {len(shortest)} tokens, max_tokens is {max_tokens}",
                hint=f"Give max_tokens={len(shortest)} or more",
            )
        paths = _PATHS.setdefault(compiled, EndPaths())
        return cls(compiled.start(), max_tokens, shortest, compiled.eos_ids, paths)

    @property
    def closes(self) -> bool:
        return self._witness is not None

    @property
    def state(self) -> ConstraintState:
        """The wrapped state."""
        return self._state

    @property
    def witness(self) -> tuple[int, ...] | None:
        """Tokens that complete the text from here."""
        return self._witness

    @property
    def tight(self) -> bool:
        """Whether only the completion fits in the tokens left."""
        return self._witness is not None and len(self._witness) >= self.left_tokens

    def fallback(self) -> int:
        """The next token towards the end; an end token if the text is complete."""
        if self._witness is None:
            raise ConstraintError(
                "no valid end is known from here", hint="Raise max_tokens, or simplify the type"
            )
        return self._witness[0] if self._witness else self._eos_ids[0]

    def close(self) -> None:
        """From now on allow only the completion (a deadline is near)."""
        if self._witness is not None:
            self.left_tokens = min(self.left_tokens, len(self._witness))

    def fill_bitmask(self, row: MaskRow) -> bool:
        if self.tight:
            self.steered = self.steered or not self._state.must_stop()
            set_only(row, self._eos_ids if not self._witness else (self.fallback(),))
            return True
        if isinstance(self._state, AutomatonState):
            self.steered = self._state.fill_bitmask_within(row, self.left_tokens) or self.steered
            return True
        return self._state.fill_bitmask(row)

    def advance(self, tokens: Sequence[int]) -> int:
        """Accept tokens; stops at the first that the grammar or the budget refuses."""
        count = self._state.advance(tokens)
        accepted = tuple(tokens[:count])
        if not accepted:
            return 0
        witness = self._witness_after(accepted)
        if witness is not None or self._witness is None:
            self._record(accepted, witness)
            return count
        self._state.rollback(count)
        self.steered = True
        done = 0
        while count > 1 and done < count and self.advance(accepted[done : done + 1]):
            done += 1
        return done

    def rollback(self, count: int) -> None:
        self._state.rollback(count)
        if count:
            self._witness, self.left_tokens = self._history[-count]
            del self._history[-count:]

    def fork(self) -> Budgeted:
        copy = Budgeted(
            self._state.fork(), self.left_tokens, self._witness, self._eos_ids, self._paths
        )
        copy._history = list(self._history)
        copy.steered = self.steered
        return copy

    def forced_tokens(self, limit: int) -> list[int]:
        return self._state.forced_tokens(min(limit, self.left_tokens))

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

    def _witness_after(self, accepted: tuple[int, ...]) -> tuple[int, ...] | None:
        """A completion from the present state that fits in the tokens left."""
        spent = self._spent(accepted)
        left = self.left_tokens - spent
        if left < 0 or self._witness is None:
            return None
        if spent < len(accepted) or self._state.can_stop():
            return ()
        old = self._witness
        if old[:spent] == accepted:
            return old[spent:]
        for start in range(min(_TAILS, len(old))):
            tail = old[start:]
            if len(tail) <= left and self._state.reaches_end(tail):
                return tail
        stored = self._paths.find(old, accepted)
        if stored is not None and len(stored) <= left and self._state.reaches_end(stored):
            return stored
        found = self._state.completion(left)
        if found is None:
            return None
        self._paths.add(old, accepted, tuple(found))
        return tuple(found)

    def _record(self, accepted: tuple[int, ...], witness: tuple[int, ...] | None) -> None:
        """Save the situation before each token for a rollback."""
        spent = self._spent(accepted)
        self._history.append((self._witness, self.left_tokens))
        for done in range(1, len(accepted)):
            rest = None if witness is None else accepted[done:spent] + witness
            self._history.append((rest, self.left_tokens - done))
        self._witness = witness
        self.left_tokens -= spent

    def _spent(self, accepted: tuple[int, ...]) -> int:
        """Number of tokens that count: an end token does not."""
        return len(accepted) - (accepted[-1] in self._eos_ids)
