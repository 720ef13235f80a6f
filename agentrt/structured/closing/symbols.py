"""A grammar as rules over bytes: the model of a constraint in which short outputs are searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from agentrt.structured.json_schema.byte_automaton import ByteAutomaton


class NotModeled(Exception):
    """A grammar uses a construct without a model here; the message names it."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """These bytes."""

    text: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Texts of an automaton."""

    automaton: ByteAutomaton


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The rule of this name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Concatenation:
    """All parts in their order."""

    parts: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One of the options; nothing fits a choice without options."""

    options: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """A part, `fewest` to `most` times; without a limit if `most` is None."""

    part: Symbol
    fewest: int
    most: int | None


@dataclass(frozen=True, slots=True, eq=False)
class SpecialToken:
    """One of these tokens, which are not text."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conjunction:
    """Texts that fit all of `kept` and none of `barred`; no rule among them leads to itself."""

    kept: tuple[Symbol, ...]
    barred: tuple[Symbol, ...]


Symbol = Union[  # noqa: UP007
    Literal, Pattern, Reference, Concatenation, Choice, Repeat, SpecialToken, Conjunction
]

NOTHING = Literal(b"")


@dataclass(slots=True, eq=False)
class Grammar:
    """Rules and the symbol of a whole output.

    Attributes:
        start: Symbol of a whole output.
        rules: Symbols by name.
        covers: Whether every output of the constraint is one of this model, which may have more.
    """

    start: Symbol
    rules: Mapping[str, Symbol] = field(default_factory=dict)
    covers: bool = True


def optional(symbol: Symbol) -> Symbol:
    """The symbol or nothing."""
    return Choice((symbol, NOTHING))
