"""Prompts whose shared prefix ends too early: something variable stands before constant text.

An engine computes the tokens that prompts have in common once, from the beginning on. A part that
differs from run to run ends that beginning; constant text behind it is computed again each time.
"""

from __future__ import annotations

import ast
import datetime
import random
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from agentrt.base.record import record
from agentrt.base.segments import Text
from agentrt.program.chat import Chat
from agentrt.program.code.calls import GENERATING, short_type
from agentrt.program.code.source import FunctionSource
from agentrt.program.new_chat import chat
from agentrt.program.prompt_prefix import prompt_segments

LEAST_CHARACTERS = 200
"""Constant text that is worth a finding: about fifty tokens, three pages of the KV cache."""
_MESSAGES = ("system", "user", "assistant")
_CHANGING = (datetime, random, time, uuid)
"""Modules whose functions give another value in each run."""


@record
class WrittenPart:
    """A part of a prompt.

    Attributes:
        text: The expression as it is written, if it may differ from run to run; else "".
        characters: Length of a constant text.
        where: `file:line`.
        is_changing: Whether it differs in each run, as a time does.
        is_system: Whether it stands in a system message.
    """

    text: str
    characters: int
    where: str
    is_changing: bool = False
    is_system: bool = False


@record
class EarlyPart:
    """A variable part with constant text behind it.

    Attributes:
        part: The part.
        characters: Length of the constant text behind it, up to the first answer.
    """

    part: WrittenPart
    characters: int


Parts = tuple[WrittenPart, ...]


def early_parts(source: FunctionSource) -> list[EarlyPart]:
    """Variable parts that come early in the prompts of one function, in order of the code."""
    return list(dict.fromkeys(_Reading(source).found))


class _Reading:
    """Reads statements in the order of the code; branches are read one after the other."""

    def __init__(self, source: FunctionSource) -> None:
        self._source = source
        self._chats: dict[str, Parts] = {}
        self._constants: dict[str, int] = {}
        self.found: list[EarlyPart] = []
        self._block(source.tree.body)

    def _block(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._calls_in(value)
                    self._assign(name, value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._calls_in(value)
                    self._assign(name, value)
                case ast.stmt() | ast.match_case() | ast.ExceptHandler() | ast.withitem():
                    self._block(ast.iter_child_nodes(node))
                case ast.expr():
                    self._calls_in(node)

    def _assign(self, name: str, value: ast.expr) -> None:
        self._chats.pop(name, None)
        self._constants.pop(name, None)
        parts = self._chat(value)
        if parts is not None:
            self._chats[name] = parts
        elif (characters := self._constant(value)) is not None:
            self._constants[name] = characters

    def _calls_in(self, expression: ast.expr) -> None:
        for node in ast.walk(expression):
            match node:
                case ast.Call(func=ast.Attribute(value=before, attr=name)) if name in GENERATING:
                    self.found += _early(self._chat(before) or ())

    def _chat(self, expression: ast.expr) -> Parts | None:
        """Parts of a chat up to its first answer; None if it is not known to be a chat."""
        match expression:
            case ast.Name(id=name) if name in self._chats:
                return self._chats[name]
            case ast.Name() | ast.Attribute():
                value = self._source.value_of(expression)
                return self._known(value, expression) if isinstance(value, Chat) else None
            case ast.Call(func=ast.Attribute(value=before, attr=role)) if role in _MESSAGES:
                parts = self._chat(before)
                if parts is None:
                    return None
                return parts + tuple(self._parts(expression.args, is_system=role == "system"))
            case ast.Call(func=ast.Attribute(value=before, attr="fork")):
                return self._chat(before)
            case ast.Call(func=func, args=args, keywords=keywords):
                if self._source.value_of(func) is chat:
                    named = [one.value for one in keywords if one.arg == "system"]
                    return tuple(self._parts([*args, *named], is_system=True))
            case ast.Subscript(value=value):
                return self._chat(value)
        return None

    def _known(self, value: Chat, expression: ast.expr) -> Parts:
        """Parts of a chat of the module, which are the same in every run."""
        texts = [one.text for one in prompt_segments(value) if isinstance(one, Text)]
        return (WrittenPart("", sum(map(len, texts)), self._source.where(expression)),)

    def _parts(self, args: Iterable[ast.expr], *, is_system: bool) -> Iterator[WrittenPart]:
        for arg in args:
            pieces = arg.values if isinstance(arg, ast.JoinedStr) else [arg]
            for piece in pieces:
                inner = piece.value if isinstance(piece, ast.FormattedValue) else piece
                yield self._part(inner, is_system=is_system)

    def _part(self, expression: ast.expr, *, is_system: bool) -> WrittenPart:
        where = self._source.where(expression)
        characters = self._constant(expression)
        if characters is not None:
            return WrittenPart("", characters, where, is_system=is_system)
        return WrittenPart(
            short_type(expression), 0, where, self._is_changing(expression), is_system
        )

    def _constant(self, expression: ast.expr) -> int | None:
        """Length of the text of an expression that is the same in every run; None if it is not."""
        match expression:
            case ast.Constant(value=value):
                return len(str(value))
            case ast.Name(id=name) if name in self._constants:
                return self._constants[name]
            case ast.Name() | ast.Attribute():
                value = self._source.value_of(expression)
                return len(str(value)) if isinstance(value, str | int | float) else None
            case ast.JoinedStr(values=parts):
                return self._sum(parts)
            case ast.FormattedValue(value=value):
                return self._constant(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._sum([left, right])
        return None

    def _sum(self, expressions: Iterable[ast.expr]) -> int | None:
        lengths = [self._constant(one) for one in expressions]
        return None if None in lengths else sum(one for one in lengths if one is not None)

    def _is_changing(self, expression: ast.expr) -> bool:
        calls = [node for node in ast.walk(expression) if isinstance(node, ast.Call)]
        return any(_is_of(self._module_behind(call.func)) for call in calls)

    def _module_behind(self, function: ast.expr) -> Any:
        """The value of the first name in `datetime.datetime.now`."""
        while isinstance(function, ast.Attribute):
            function = function.value
        return self._source.value_of(function)


def _is_of(value: Any) -> bool:
    """Whether a value is one of the modules that give changing values, or is defined in one."""
    if any(value is module for module in _CHANGING):
        return True
    home = getattr(value, "__module__", None)
    return home in [module.__name__ for module in _CHANGING] and callable(value)


def _early(parts: Parts) -> Iterator[EarlyPart]:
    """The first variable part, if enough constant text follows, and each changing system part."""
    for at, part in enumerate(parts):
        if not part.text:
            continue
        behind = sum(one.characters for one in parts[at + 1 :])
        if behind >= LEAST_CHARACTERS or (part.is_changing and part.is_system):
            yield EarlyPart(part, behind)
            return
