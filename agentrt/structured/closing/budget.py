"""Closing within `max_tokens`: a verified completion is held at every step.

The completion (witness) is a list of tokens that the matcher has accepted up to a complete text. A
token is accepted only if a completion after it fits in the tokens left. So the output can always be
closed, and nothing is ever repaired afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from agentrt.base.errors import ConstraintError
from agentrt.structured.backends.automaton import AutomatonState
from agentrt.structured.matcher import CompiledConstraint, ConstraintState, MaskRow, set_only

_TAILS = 8
"""Number of tails of the old completion to try before a search."""

MAX_PATHS = 256

MAX_VAIN_SEARCHES = 2
"""Maximum number of searches in vain behind one text: the row waits for each.

A completion is held anyway; after that a token needs an end that is known.
"""

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


@dataclass(slots=True, eq=False)
class EndSearch:
    """A search for a completion behind a token, on a copy of the matcher: any thread may run it.

    Attributes:
        state: The copy, behind the token.
        limit: Maximum number of tokens of the completion.
        is_done: Whether it has been run, or given up.
        found: The completion; None if none was found.
    """

    state: ConstraintState
    limit: int
    is_done: bool = False
    found: _Path | None = None

    def run(self) -> None:
        """Search.

        Raises:
            ConstraintError: The grammar cannot be followed any further.
        """
        found = self.state.completion(self.limit)
        if not self.is_done:
            self.found = None if found is None else tuple(found)
            self.is_done = True

    def give_up(self) -> None:
        """Count as a search in vain, whatever becomes of it."""
        self.is_done = True


@dataclass(slots=True, eq=False)
class Budgeted:
    """A state that keeps within a number of tokens, the end token not counted.

    Used like the wrapped state. `advance` also refuses tokens that would leave no room to close;
    then `fallback()` is the next token towards the end.

    Attributes:
        state: The wrapped state.
        left_tokens: Number of tokens that may still be accepted.
        witness: Tokens that complete the text from here; None if no end is known.
        eos_ids: Tokens that end the output.
        paths: Completions that searches have found.
        history: Witness and tokens left before each accepted token.
        closes: Whether a completion is known; without one there is no guarantee.
        steered: Whether the budget has refused or narrowed anything.
        searches_later: Whether a token whose end must be searched is refused until the search has
            been run. Else searches are run at once.
        search: Search that must be run before the refused token can be judged; None if the last
            refusal is final.
        searches: Searches behind the present text, by the tokens they follow.
    """

    state: ConstraintState
    left_tokens: int
    witness: _Path | None
    eos_ids: tuple[int, ...]
    paths: EndPaths = field(default_factory=EndPaths)
    history: list[tuple[_Path | None, int]] = field(default_factory=list)
    steered: bool = False
    searches_later: bool = False
    search: EndSearch | None = None
    searches: dict[_Path, EndSearch] = field(default_factory=dict)

    @classmethod
    def start(cls, compiled: CompiledConstraint, max_tokens: int) -> Budgeted:
        """The state at the beginning of an output.

        Raises:
            ConstraintError: No complete text is known, or none that fits in `max_tokens`.
        """
        shortest = compiled.shortest
        if shortest is None:
            raise ConstraintError(
                f"no end is known that could close the output: {compiled.why_open}",
                hint='Use on_limit="raise", or simplify the grammar',
            )
        if len(shortest) > max_tokens:
            least = compiled.least_tokens
            known = f"the shortest output found has {len(shortest)} tokens"
            needs = f"the output needs at least {least} tokens"
            raise ConstraintError(
                f"{needs if max_tokens < least else known}, max_tokens is {max_tokens}",
                hint=f"Give max_tokens={len(shortest)} or more",
            )
        paths = _PATHS.setdefault(compiled, EndPaths())
        return cls(compiled.start(), max_tokens, shortest, compiled.eos_ids, paths)

    @property
    def closes(self) -> bool:
        return self.witness is not None

    @property
    def tight(self) -> bool:
        """Whether only the completion fits in the tokens left."""
        return self.witness is not None and len(self.witness) >= self.left_tokens

    @property
    def narrows(self) -> bool:
        """Whether masks depend on the tokens left, not on the wrapped state alone."""
        return self.tight or isinstance(self.state, AutomatonState)

    def fallback(self) -> int:
        """The next token towards the end; an end token if the text is complete."""
        if self.witness is None:
            raise ConstraintError(
                "no valid end is known from here", hint="Raise max_tokens, or simplify the type"
            )
        return self.witness[0] if self.witness else self.eos_ids[0]

    def close(self) -> None:
        """From now on allow only the completion (a deadline is near)."""
        if self.witness is not None:
            self.left_tokens = min(self.left_tokens, len(self.witness))

    def fill_bitmask(self, row: MaskRow) -> bool:
        if self.tight:
            self.steered = self.steered or not self.state.must_stop()
            set_only(row, self.eos_ids if not self.witness else (self.fallback(),))
            return True
        if isinstance(self.state, AutomatonState):
            self.steered = self.state.fill_bitmask_within(row, self.left_tokens) or self.steered
            return True
        return self.state.fill_bitmask(row)

    def advance(self, tokens: Sequence[int]) -> int:
        """Accept tokens; stops at the first that the grammar or the budget refuses."""
        self.search = None
        count = self.state.advance(tokens)
        accepted = tuple(tokens[:count])
        if not accepted:
            return 0
        witness = self._witness_after(accepted)
        if witness is not None or self.witness is None:
            self._record(accepted, witness)
            return count
        self.state.rollback(count)
        if self.search is not None:
            return 0
        self.steered = True
        done = 0
        while count > 1 and done < count and self.advance(accepted[done : done + 1]):
            done += 1
        return done

    def rollback(self, count: int) -> None:
        self.state.rollback(count)
        if count:
            self.searches.clear()
            self.witness, self.left_tokens = self.history[-count]
            del self.history[-count:]

    def fork(self) -> Budgeted:
        state, history, searches = self.state.fork(), list(self.history), dict(self.searches)
        return replace(self, state=state, history=history, searches=searches)

    def forced_tokens(self, limit: int) -> list[int]:
        return self.state.forced_tokens(min(limit, self.left_tokens))

    def forced_text(self) -> bytes:
        return self.state.forced_text()

    def completion(self, limit: int) -> list[int] | None:
        if self.witness is not None and len(self.witness) <= limit:
            return list(self.witness)
        return self.state.completion(limit)

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        return len(tokens) <= self.left_tokens and self.state.reaches_end(tokens)

    def can_stop(self) -> bool:
        return self.state.can_stop()

    def must_stop(self) -> bool:
        return self.state.must_stop()

    def _witness_after(self, accepted: _Path) -> _Path | None:
        """A completion from the present state that fits in the tokens left."""
        spent = self._spent(accepted)
        left = self.left_tokens - spent
        if left < 0 or self.witness is None:
            return None
        if spent < len(accepted) or self.state.can_stop():
            return ()
        old = self.witness
        if old[:spent] == accepted:
            return old[spent:]
        for start in range(min(_TAILS, len(old))):
            tail = old[start:]
            if len(tail) <= left and self.state.reaches_end(tail):
                return tail
        stored = self.paths.find(old, accepted)
        if stored is not None and len(stored) <= left and self.state.reaches_end(stored):
            return stored
        found = self._searched(accepted, left)
        if found is not None:
            self.paths.add(old, accepted, found)
        return found

    def _searched(self, accepted: _Path, limit: int) -> _Path | None:
        """The completion that a search behind these tokens has found; sets `search` if need be."""
        search = self.searches.get(accepted)
        if search is None:
            vain = sum(one.is_done and one.found is None for one in self.searches.values())
            runs_now = not self.searches_later or isinstance(self.state, AutomatonState)
            if vain >= MAX_VAIN_SEARCHES or (len(accepted) > 1 and not runs_now):
                return None
            search = EndSearch(self.state if runs_now else self.state.fork(), limit)
            if runs_now:
                search.run()
            self.searches[accepted] = search
        if not search.is_done:
            self.search = search
        return search.found

    def _record(self, accepted: _Path, witness: _Path | None) -> None:
        """Save the situation before each token for a rollback."""
        spent = self._spent(accepted)
        self.history.append((self.witness, self.left_tokens))
        for done in range(1, len(accepted)):
            rest = None if witness is None else accepted[done:spent] + witness
            self.history.append((rest, self.left_tokens - done))
        self.witness = witness
        self.left_tokens -= spent
        self.searches.clear()

    def _spent(self, accepted: _Path) -> int:
        """Number of tokens that count: an end token does not."""
        return len(accepted) - (accepted[-1] in self.eos_ids)
