"""Late constraints: constraints with holes, and the options that fill them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.held_place import HeldPlace, texts_by_hole
from agentrt.base.one_of import LARGE_OPTIONS
from agentrt.program.node import Node


@dataclass(slots=True, eq=False)
class LateConstraint:
    """A constraint with holes, and the options that fill them; filled once.

    Attributes:
        spec: The constraint with its holes.
        places: The places of its holes, by their names.
    """

    spec: ConstraintSpec
    places: Mapping[str, HeldPlace] = field(default_factory=dict)
    _filled: ConstraintSpec | None = None
    _error: Exception | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def sources(self) -> tuple[Node[object], ...]:
        """The nodes that give options."""
        return tuple([source for one in self.places.values() for source in one.one_of.sources])

    @property
    def is_declared(self) -> bool:
        """Whether all options were known when the type was declared."""
        return all(place.one_of.is_fixed for place in self.places.values())

    @property
    def is_ready(self) -> bool:
        """Whether all options are there, and the constraint is still to be filled.

        Raises:
            Exception: The error of a node that has failed, although others are pending.
        """
        if self._filled is not None or self._error is not None:
            return False
        sources = self.sources
        for source in sources:
            if source.done:
                source.held_options()
        return all(source.done for source in sources)

    @property
    def is_large(self) -> bool:
        """Whether its options, which are there, are too many for a loop."""
        return sum(place.one_of.count for place in self.places.values()) > LARGE_OPTIONS

    @property
    def known(self) -> ConstraintSpec:
        """The constraint with its options; with its holes while they are not there or not filled.

        A few options are filled in here, many by `fill`.

        Raises:
            ConstraintError: An option has no JSON form, or is none of its type.
            Exception: The error of a node that has failed.
        """
        if self.is_ready and not self.is_large:
            self.fill()
        if self._error is not None:
            raise self._error
        return self._filled or self.spec

    @property
    def has_failed(self) -> bool:
        """Whether an option has no JSON form, or is none of its type, as `known` raises it."""
        return self._error is not None

    def fill(self) -> None:
        """Fill the holes with the options, all of which are there; `known` raises what is wrong."""
        with self._lock:  # several runs may share what is declared
            if self._filled is not None:
                return
            try:
                self._filled = self.spec.filled(texts_by_hole(self.places))
            except Exception as wrong:  # an option without a JSON form may raise anything
                self._error = wrong
