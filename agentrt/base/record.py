"""Records: frozen values that cost little to make.

A node emits a dozen of them, an engine step a few for each of its requests. A dataclass that
forbids assignment pays for that on creation, field by field: `NodeDeclared` takes four times as
long. So the type checkers, which read every line of this package, forbid assignment, and nothing
does at run time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a record: a dataclass with slots, equal and hashed by value, not to be changed.

    Example:
        >>> @record
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1) == Point(1, 0), len({Point(1), Point(1)})
        (True, 1)
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
