"""Parts of a composed constraint: leaves, put together by `+`, `|`, repetition and captures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.limits import check_text
from agentrt.structured.types.shape import Shape

MAX_REPEATS = 1_000
MAX_NESTED = 128
"""Levels of parts within parts, which writing and reading descend."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Leaf:
    """A constraint that is not composed; without a spec it is free text."""

    spec: ConstraintSpec | None
    schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Parts one after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """One of the parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """A part several times in a row.

    Attributes:
        part: The part.
        fewest: Minimum number of times.
        most: Maximum number of times; None sets no limit.
    """

    part: Part
    fewest: int
    most: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A part with a name, by which its value is known.

    Attributes:
        name: The name.
        part: The part.
        shape: Shape of the value.
        form: Type or constraint of the value, as the author wrote it.
    """

    name: str
    part: Part
    shape: Shape
    form: Any


Part = Leaf | Joined | Either | Repeated | Captured


def literal_part(text: str) -> Part:
    """A text as a part."""
    check_text(text, "composition")
    return Leaf(ConstraintSpec("choice", options=(text,)))


def check_nesting(part: Part) -> None:
    """Refuse a composition of too many levels.

    Raises:
        ConstraintError: There are more than `MAX_NESTED`.
    """
    level, levels = [part], 0
    while level:
        levels += 1
        if levels > MAX_NESTED:
            raise ConstraintError(
                f"composition: more than {MAX_NESTED} levels of parts within parts",
                hint="Join parts in groups, repeat them, or write one regex or cfg",
            )
        below: dict[int, Part] = {}
        for one in level:
            match one:
                case Joined(parts) | Either(parts):
                    below |= {id(each): each for each in parts}
                case Repeated(inner) | Captured(_, inner):
                    below[id(inner)] = inner
        level = list(below.values())


def repeated(part: Part, fewest: int, most: int | None) -> Part:
    """A part several times in a row.

    Raises:
        ConstraintError: The numbers are contradictory.
    """
    if not (0 <= fewest <= (MAX_REPEATS if most is None else most) <= MAX_REPEATS and most != 0):
        raise ConstraintError(
            f"{fewest} to {most} times", hint=f"Give 0 <= fewest <= most, at most {MAX_REPEATS}"
        )
    return Repeated(part, fewest, most)


@dataclass(frozen=True, slots=True, eq=False)
class CaptureField:
    """One name of a composed constraint.

    Attributes:
        capture: One of the captures with the name.
        is_list: Whether it is repeated, so that its value is a list.
        is_optional: Whether a text may be without it.
    """

    capture: Captured
    is_list: bool
    is_optional: bool


def fields_of(part: Part) -> dict[str, CaptureField]:
    """The captures of a part by name.

    Raises:
        ConstraintError: Two captures that may both occur have one name.
    """
    found: dict[str, CaptureField] = {}
    every = list(_alternatives(part))
    for fields in every:
        for name, field in fields.items():
            known = found.setdefault(name, field)
            same = known.capture.form is field.capture.form and known.is_list == field.is_list
            if not same:
                raise _twice(name)
    return {
        name: CaptureField(
            field.capture,
            field.is_list,
            not field.is_list and any(name not in one or one[name].is_optional for one in every),
        )
        for name, field in found.items()
    }


def _alternatives(part: Part) -> Iterator[dict[str, CaptureField]]:
    """The captures of each alternative of a part."""
    match part:
        case Leaf():
            yield {}
        case Captured(name, inner):
            inside = fields_of(inner)
            if name in inside:
                raise _twice(name)
            yield {name: CaptureField(part, is_list=False, is_optional=False), **inside}
        case Either(parts):
            for one in parts:
                yield fields_of(one)
        case Repeated(inner, fewest, 1):
            yield fields_of(inner)
            if fewest == 0:
                yield {}
        case Repeated(inner):
            yield {
                name: CaptureField(field.capture, is_list=True, is_optional=False)
                for name, field in fields_of(inner).items()
            }
        case Joined(parts):
            whole: dict[str, CaptureField] = {}
            for one in parts:
                fields = fields_of(one)
                if twice := whole.keys() & fields.keys():
                    raise _twice(min(twice))
                whole |= fields
            yield whole


def _twice(name: str) -> ConstraintError:
    return ConstraintError(
        f"two captures are named {name!r}", hint="Rename one, or capture their repetition"
    )
