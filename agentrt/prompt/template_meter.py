"""Meter of one rendering: work and memory, counted and not timed, so that every machine agrees.

A step is the work of one node of a template, at most about a microsecond. A character is one that
a value of the template takes in memory. Both limits grow with the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from jinja2.utils import Namespace

from agentrt.base.errors import RequestRejected

BASE_STEPS = 200_000
BASE_CHARACTERS = 1_000_000
STEPS_PER_VALUE = 1_000
"""A message has about four values, its texts and keys."""
STEPS_PER_CHARACTER = 8
MAX_STEPS = 20_000_000
CHARACTERS_PER_CHARACTER = 64
MAX_CHARACTERS = 256_000_000
CHARACTERS_PER_ITEM = 16
CHARACTERS_PER_STEP = 64
"""Length of text that is copied or searched in one step."""


class TemplateMeter:
    """Remaining work and memory of one rendering.

    Args:
        name: Name of the template, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.start(())

    def start(self, given: Any) -> None:
        """Begin a rendering of `given`; its size is measured only if the base limits are passed."""
        self._given = given
        self._extended = False
        self._steps = BASE_STEPS
        self._characters = BASE_CHARACTERS

    def count_block(self, steps: int, characters: int) -> None:
        """Count one execution of a block of statements.

        Raises:
            RequestRejected: Nothing is left.
        """
        self._steps -= steps
        self._characters -= characters
        if self._steps < 0 or self._characters < 0:
            self._extend()

    def count_steps(self, steps: int) -> None:
        """Count work."""
        self._steps -= steps
        if self._steps < 0:
            self._extend()

    def count_text(self, characters: int) -> None:
        """Count text before it is made."""
        self._steps -= 1 + characters // CHARACTERS_PER_STEP
        self._characters -= characters
        if self._steps < 0 or self._characters < 0:
            self._extend()

    def count_items(self, items: int) -> None:
        """Count a container before it is made."""
        self.count_block(1 + items, items * CHARACTERS_PER_ITEM)

    def counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """`values`, each counted as it is taken."""
        for value in values:
            self.count_items(1)
            yield value

    def weigh(self, value: Any) -> int:
        """Length of a value's text at most, its parts counted as steps; shared parts each time."""
        if type(value) is str:
            self.count_steps(1 + len(value) // CHARACTERS_PER_STEP)
            return len(value)
        return self._walk(value, self.count_steps)

    def _walk(self, value: Any, count: Callable[[int], None]) -> int:
        size = 0
        todo = [iter((value,))]
        while todo:
            for part in todo[-1]:
                count(1)
                if isinstance(part, str):
                    count(len(part) // CHARACTERS_PER_STEP)
                    size += len(part) + 2
                    continue
                size += 30 if not isinstance(part, int) else 3 + part.bit_length() // 3
                inner = parts_of(part)
                if inner is not None:
                    todo.append(inner)
                    break
            else:
                todo.pop()
        return size

    def _extend(self) -> None:
        """Raise the limits to those of the conversation, once."""
        if not self._extended:
            self._extended = True
            values = 0

            def count(parts: int) -> None:
                nonlocal values
                values += 1

            characters = self._walk(self._given, count)
            steps = STEPS_PER_VALUE * values + STEPS_PER_CHARACTER * characters
            self._steps += min(MAX_STEPS, steps)
            self._characters += min(MAX_CHARACTERS, CHARACTERS_PER_CHARACTER * characters)
        if self._steps < 0 or self._characters < 0:
            what = "work" if self._steps < 0 else "memory"
            raise RequestRejected(
                f"{self._name} takes more {what} than such a conversation may",
                hint="Use the template that the model was published with",
            )


def parts_of(value: Any) -> Iterator[Any] | None:
    """The values inside a container; None for any other value."""
    if isinstance(value, dict):
        pairs: Iterable[tuple[Any, Any]] = value.items()
        return chain.from_iterable(pairs)
    if isinstance(value, list | tuple | set | frozenset) or type(value) in _VIEWS:
        values: Iterable[Any] = value
        return iter(values)
    if type(value) is Namespace:  # its text shows what it holds
        held: dict[str, Any] = object.__getattribute__(value, "_Namespace__attrs")
        return chain.from_iterable(held.items())
    return None


_VIEWS = {type({}.keys()), type({}.values()), type({}.items())}
