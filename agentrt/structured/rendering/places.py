"""Places of a JSON value, and how the prompt writes what is read there.

A place is known before its value: its kind says which beginning of the value's text is certain
while the rest is still being written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentrt.base.json_style import JsonStyle, styled_json


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A value of which nothing is certain before its end, such as a number or a set.

    Attributes:
        read: Reads the JSON text of the value.
        plain: Gives the value as plain Python.
    """

    read: Callable[[str], Any]
    plain: Callable[[Any], Any]

    def rendered(self, text: str, style: JsonStyle, depth: int) -> str:
        """The value of a JSON text as a prompt writes it.

        Args:
            text: The JSON text.
            style: Style of the prompt.
            depth: Number of containers around the value.

        Raises:
            ValueError: The text has no value, or the value no JSON form.
        """
        return styled_json(self.plain(self.read(text)), style, depth)


@dataclass(frozen=True, slots=True, eq=False)
class TextPlace:
    """A string, written as it is read."""


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """An array.

    Attributes:
        item: Place of an item by its index.
        whole: The same read at its end.
    """

    item: Callable[[int], Place]
    whole: Whole


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """An object with keys and values in the order in which they are written.

    Attributes:
        value: Place of each value.
        whole: The same read at its end.
    """

    value: Place
    whole: Whole


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A field of a record.

    Attributes:
        key: The key that is read.
        name: The key that is written.
        place: Place of its value.
        absent: Gives the plain value that is written if the field is absent, or `NOT_WRITTEN`; None
            if that is not certain.
    """

    key: str
    name: str
    place: Place
    absent: Callable[[], Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """A record, written in the order of its fields.

    Attributes:
        members: The fields in that order.
        whole: The same read at its end.
    """

    members: Sequence[Member]
    whole: Whole


@dataclass(frozen=True, slots=True, eq=False)
class ChoicePlace:
    """A value of one of several kinds, known by its first character.

    Attributes:
        at: Gives the place of values that begin with a character.
    """

    at: Callable[[str], Place]


NOT_WRITTEN = object()
"""Stands for the value of an absent field that is left out."""

Place: TypeAlias = Whole | TextPlace | Items | Entries | Members | ChoicePlace


def plain_place(read: Callable[[str], Any]) -> ChoicePlace:
    """The place of any JSON that is read as plain Python.

    Args:
        read: Reads a JSON text.
    """
    whole = Whole(read, lambda value: value)
    entries = Entries(here := ChoicePlace(lambda first: kinds.get(first, whole)), whole)
    kinds: dict[str, Place] = {'"': TextPlace(), "[": Items(lambda _: here, whole), "{": entries}
    return here


def chosen(place: Place, first: str) -> Whole | TextPlace | Items | Entries | Members:
    """The place of a value with that first character."""
    while isinstance(place, ChoicePlace):
        place = place.at(first)
    return place
