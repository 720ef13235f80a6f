"""Pieces of Lark text: lists, alternatives, terminals, JSON strings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.base.record import record
from agentrt.structured.json_schema.native import lark_regex
from agentrt.structured.json_schema.number_range import exact
from agentrt.structured.json_schema.regex_text import escape_regex

NAME = r'"(?:\\(?:["\\bfnrt]|u00[01][0-9a-fA-F]|u007[fF])|[^"\\\x00-\x1F\x7F])*"'
"""A JSON string, as the compiler writes it."""

_quote = json.JSONEncoder(ensure_ascii=False).encode
_quote_all = json.JSONEncoder(ensure_ascii=False, separators=(" | ", ":")).encode


class Inexpressible(Exception):
    """A schema has keywords around its numbers that rules do not express; says which, if known."""


@record
class LarkPart:
    """Part of a Lark grammar.

    Attributes:
        expression: Text to put into a rule.
        rules: Rules and terminals that the expression needs.
    """

    expression: str
    rules: tuple[str, ...] = ()


def listed(item: str, comma: str, fewest: int, most: int | None, *, goes_on: bool) -> str:
    """Items with a comma between them, and one in front if the list `goes_on`."""
    if most == 0:
        return ""
    if not goes_on:
        left = None if most is None else most - 1
        text = f"{item} {listed(item, comma, max(0, fewest - 1), left, goes_on=True)}"
        return text if fewest else f"({text})?"
    if most is None and fewest == 0:
        return f"({comma} {item})*"
    return f"({comma} {item}){{{fewest},{'' if most is None else most}}}"


def texts_of(value: Any, style: JsonStyle = "compact", depth: int = 0) -> list[str]:
    """The texts of a value: a whole float may be written without a point, too."""
    text = styled_json(value, style, depth)
    if isinstance(value, float) and value.is_integer():
        return [text, str(int(exact(value)))]
    return [text]


def either(options: Iterable[str | None]) -> str | None:
    """Alternatives; None if there are none."""
    left = [option for option in options if option is not None]
    return " | ".join(left) if left else None


def as_list(value: Any) -> list[Any]:
    """A keyword's value that may stand alone, as a list."""
    return value if isinstance(value, list) else [value]


def terminal(pattern: str) -> str:
    """A regex as a terminal, or as part of one."""
    return lark_regex(f"(?:{pattern})")


def one_of(texts: list[str]) -> str:
    """Some texts as a terminal: literals, which compile four times as fast as a regex of them."""
    if any("\x7f" in text for text in texts):
        return terminal("|".join(escape_regex(text) for text in texts))
    return _quote_all(texts)[1:-1]


def json_text(name: str) -> str:
    """The JSON string of a name.

    Raises:
        Inexpressible: Lark has no notation for a character of it.
    """
    if "\x7f" in name:
        raise Inexpressible
    return json.dumps(name, ensure_ascii=False)


def quoted(text: str) -> str:
    """A text as a Lark string, which is a JSON string."""
    return _quote(text)


def spelled(pieces: Iterable[str | int]) -> str:
    """Text and ids of special tokens, one after the other; "" for none."""
    return " ".join(f"<[{piece}]>" if isinstance(piece, int) else quoted(piece) for piece in pieces)


def joined(pieces: Iterable[str | int]) -> list[str | int]:
    """Text and ids of special tokens, neighbouring texts in one."""
    found: list[str | int] = []
    for piece in pieces:
        if found and isinstance(piece, str) and isinstance(last := found[-1], str):
            found[-1] = last + piece
        else:
            found.append(piece)
    return found


def pieces(text: str, tokens: dict[str, int]) -> list[str | int]:
    """`text` cut at its special tokens, which become ids."""
    found: list[str | int] = []
    rest = text
    while rest:
        positions = [(rest.find(token), -len(token), token) for token in tokens if token in rest]
        if not positions:
            found.append(rest)
            break
        at, _, token = min(positions)
        if at:
            found.append(rest[:at])
        found.append(tokens[token])
        rest = rest[at + len(token) :]
    return found
