"""How facts are written down: values that nobody changes, and that cost little to make.

A node is told of in a dozen of them, an engine's step in a few for each of its requests. A
dataclass that forbids assignment pays for that while it is made, field by field: the one that
declares a node takes four times as long. So the type checkers, which read every line of this
package, forbid it, and nothing does at run time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Makes a class a fact: a dataclass with slots, equal and hashed by value, not to be changed.

    Example:
        >>> @fact
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1) == Point(1, 0), len({Point(1), Point(1)})
        (True, 1)
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
