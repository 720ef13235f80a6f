"""Outcomes of programs by engine, as a table: ok, or the line in which a program ended."""

from collections import defaultdict
from collections.abc import Iterator

OK = "ok"
_SHOWN_CHARACTERS = 150


class OutcomeTable:
    """A row for each program and engine."""

    def __init__(self) -> None:
        self._outcomes: dict[str, dict[str, str]] = defaultdict(dict)

    def note(self, program: str, engine: str, outcome: str) -> None:
        """Keep how a program ended at an engine."""
        self._outcomes[engine][program] = outcome

    def lines(self) -> Iterator[str]:
        """The table: for each engine its programs, those that ended well in one line."""
        for engine, outcomes in self._outcomes.items():
            fine = [program for program, outcome in outcomes.items() if outcome == OK]
            yield f"{engine}: {len(fine)} of {len(outcomes)} ok"
            for program, outcome in outcomes.items():
                yield f"  {program:<24} {outcome[:_SHOWN_CHARACTERS]}"
