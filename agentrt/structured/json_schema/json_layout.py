"""Texts around the values of JSON in a style, as Lark: brackets, commas, colons, line breaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import SEPARATORS, JsonStyle, line_break, styled_json
from agentrt.structured.json_schema.lark_text import json_text, one_of, quoted


@dataclass(slots=True, eq=False)
class JsonLayout:
    """The texts at one place of a document.

    Attributes:
        style: Style of the texts.
        depth: Number of containers around the place.
    """

    style: JsonStyle
    depth: int = 0

    @property
    def has_lines(self) -> bool:
        """Whether texts depend on the depth."""
        return self.style == "indented"

    @property
    def comma(self) -> str:
        """The text between two items or fields of a container in this place."""
        return quoted(SEPARATORS[self.style].item + line_break(self.style, self.depth + 1))

    @property
    def colon(self) -> str:
        """The text between a key and its value."""
        return quoted(SEPARATORS[self.style].key)

    def container(
        self, brackets: tuple[str, str], inner: str | None, *, may_be_empty: bool
    ) -> str | None:
        """A container in this place; None if nothing may stand in it and something must.

        Args:
            brackets: The opening bracket and the closing one.
            inner: One or more items; None if there can be none.
            may_be_empty: Whether it may have none.
        """
        opening, closing = brackets
        if inner is None:
            return quoted("".join(brackets)) if may_be_empty else None
        if may_be_empty and not self.has_lines:
            return f"{quoted(opening)} ({inner})? {quoted(closing)}"
        first = quoted(opening + line_break(self.style, self.depth + 1))
        last = quoted(line_break(self.style, self.depth) + closing)
        filled = f"{first} {inner} {last}"
        return f"{quoted(''.join(brackets))} | {filled}" if may_be_empty else filled

    def pieces_of(self, value: Any) -> str:
        """A value in this place as a sequence of lexemes."""
        match value:
            case dict():
                found = zip(value, self._below(value.values()), strict=True)
                inner = [f"{quoted(json_text(name))} {self.colon} {one}" for name, one in found]
                brackets = ("{", "}")
            case list():
                inner, brackets = self._below(value), ("[", "]")
            case _:
                return one_of([styled_json(value)])
        whole = f" {self.comma} ".join(inner) or None
        return self.container(brackets, whole, may_be_empty=not inner) or ""

    def _below(self, values: Iterable[Any]) -> list[str]:
        self.depth += 1
        found = [self.pieces_of(value) for value in values]
        self.depth -= 1
        return found


def not_indented(why: str) -> ConstraintError:
    """The error of a schema without indented texts, for a reason; "" for its size."""
    return ConstraintError(
        f"the schema has no indented form: {why or 'it is too large'}",
        hint='Use json_style="spaced" or "compact", or a type of which each part is declared',
    )
