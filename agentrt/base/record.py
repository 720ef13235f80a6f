"""Records: frozen values that cost little to make.

A node emits a dozen of them, an engine step a few for each of its requests. A dataclass that
forbids assignment pays for that on creation, field by field: `NodeDeclared` takes four times as
long. So the type checkers, which read every line of this package, forbid assignment, and nothing
does at run time.

Their classes cost little to make too, since a command makes hundreds of them before it begins. A
dataclass compiles the source of each of its methods; here only `__init__` is compiled, and the
others read the fields by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

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
    own = vars(cls).keys()
    cls.__doc__ = cls.__doc__ or cls.__name__  # else a dataclass looks its signature up
    made: type[Any] = dataclass(slots=True, eq=False, repr=False)(cls)
    shown = [one.name for one in fields(made) if one.repr]
    compared = [one.name for one in fields(made) if one.compare]
    hashed = [one.name for one in fields(made) if (one.compare if one.hash is None else one.hash)]
    compared_of = _getter(compared)
    hashed_of = compared_of if hashed == compared else _getter(hashed)

    def to_text(self: Any) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({', '.join(values)})"

    def equals(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared_of(self) == compared_of(other)

    def to_hash(self: Any) -> int:
        return hash(hashed_of(self))

    methods = {"__repr__": recursive_repr("...")(to_text), "__eq__": equals, "__hash__": to_hash}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


def _getter(names: list[str]) -> Callable[[Any], Any]:
    """The values of some attributes as a tuple, which compares an object with itself as equal."""
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda one: (get(one),)
