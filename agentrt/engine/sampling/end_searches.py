"""Searches for ends of outputs, on threads beside the steps.

A token that leaves the completion held needs another one behind it. Most are known; the others are
searched on a copy of the grammar. A step waits for its searches as long as for a late mask, all of
them together; a row with a search that takes longer skips the step and draws its token again.
"""

from __future__ import annotations

from concurrent.futures import wait
from time import perf_counter

from agentrt.engine.sampling.grammar_threads import GrammarFuture, GrammarThreads
from agentrt.engine.sequence.sequence import Sequence
from agentrt.structured.closing.budget import EndSearch

_THREADS = 2


class EndSearches:
    """Searches under way, one a sequence.

    Attributes:
        step_budget_s: Longest time for which the searches of all rows may hold up a step.
        limit_s: Longest time of one search; after that it counts as one in vain.
        threads: Threads that search; started with the first search.
    """

    def __init__(self) -> None:
        self.step_budget_s = 0.01
        self.limit_s = 10.0
        self._until_s = 0.0
        self.threads: GrammarThreads | None = None
        self._under_way: dict[Sequence, tuple[EndSearch, GrammarFuture[None]]] = {}

    def begin_step(self) -> None:
        """Begin to count what the searches of a step may take."""
        self._until_s = perf_counter() + self.step_budget_s

    def is_done(self, sequence: Sequence, search: EndSearch) -> bool:
        """Begin the search unless it is under way; False if the step may not wait for its end.

        Raises:
            ConstraintError: The grammar cannot be followed any further.
        """
        begun = self._under_way.get(sequence)
        if begun is None or begun[0] is not search:
            begun = self._begin(sequence, search)
        _, future = begun
        wait([future], timeout=max(0.0, self._until_s - perf_counter()))
        if future.done():
            del self._under_way[sequence]
            future.result()
            return True
        if future.takes_longer(self.limit_s):
            self.abandon(sequence)
            search.give_up()
        return search.is_done

    def abandon(self, sequence: Sequence) -> None:
        """Give up the search of a sequence that needs it no more."""
        begun = self._under_way.pop(sequence, None)
        if begun is not None and self.threads is not None:
            self.threads.abandon(begun[1])

    def close(self) -> None:
        """End the threads; those that are stuck end with the process."""
        if self.threads is not None:
            self.threads.close()
        self.threads = None

    def _begin(
        self, sequence: Sequence, search: EndSearch
    ) -> tuple[EndSearch, GrammarFuture[None]]:
        if self.threads is None:
            self.threads = GrammarThreads(_THREADS, "agentrt-end-searches")
        self.abandon(sequence)
        begun = search, self.threads.submit(search.run)
        self._under_way[sequence] = begun
        return begun
