"""Calls in the code of a program: which of them make nodes, by their text and their module."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.program.agent import agent
from agentrt.program.ask import ask
from agentrt.program.chat import Chat
from agentrt.program.code.source import Function, FunctionSource, function_source
from agentrt.program.fan import fan
from agentrt.program.program import Program
from agentrt.program.tool import Tool

GENERATING = ("generate", "each", "calls", "step", "tagged")
"""Methods of a chat that make generations."""
_MOST_CHARACTERS = 40
_LIBRARY = (str(Path(os.__file__).resolve().parent), str(Path(__file__).resolve().parents[2]))


@record
class Making:
    """A call that makes a node.

    Attributes:
        kind: Kind of the node.
        name: Name of the node.
        detail: Type of its output, or "".
        tools: Tools that the model may call.
        is_many: Whether one call makes several.
    """

    kind: Literal["generate", "tool", "program", "ask"]
    name: str
    detail: str = ""
    tools: tuple[str, ...] = ()
    is_many: bool = False


@record
class CalledFunction:
    """A function of the same module, which may make nodes itself."""

    tree: Function
    source: FunctionSource


Called = Making | CalledFunction | str | None


def called(call: ast.Call, source: FunctionSource) -> Called:
    """The effect of a call: it makes a node, or calls a function of the module, or neither.

    A text is the name of a coroutine function of another module, which may make nodes too.
    """
    value = source.value_of(call.func)
    if isinstance(value, Tool | Program):
        return _calling(value)
    if isinstance(call.func, ast.Attribute) and call.func.attr in GENERATING:
        owner = source.value_of(call.func.value)
        return _generating(call, source) if owner is None or isinstance(owner, Chat) else None
    if value is agent:
        form = f"calls or {_keyword_type(call, 'final') or 'text'}"
        return Making("program", "agent", form, tuple(dict.fromkeys(_tools_in(call, source))))
    if value is ask:
        return Making("ask", "ask", _type_of(call, 0))
    if value is fan:
        over = source.value_of(call.args[0]) if call.args else None
        if isinstance(over, Tool | Program):
            one = _calling(over)
            return Making(one.kind, one.name, is_many=True)
    if isinstance(value, FunctionType):
        return _function(value, source)
    return None


def _calling(value: Tool[..., Any] | Program[..., Any]) -> Making:
    return Making("tool" if isinstance(value, Tool) else "program", value.name)


def _generating(call: ast.Call, source: FunctionSource) -> Making:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    offered = tuple(dict.fromkeys(_tools_in(call, source))) if method in ("calls", "step") else ()
    form = {
        "generate": _type_of(call, 0) or "str",
        "each": f"each {_type_of(call, 0) or 'item'}",
        "calls": "a plan of calls",
        "step": f"calls or {_keyword_type(call, 'final') or 'text'}",
        "tagged": "text with tags",
    }[method]
    return Making("generate", _name_of(call) or method, form, offered)


def _name_of(call: ast.Call) -> str:
    """The name that the call gives its node; the fields of an f-string stay as they are."""
    for keyword in call.keywords:
        if keyword.arg == "name":
            if isinstance(keyword.value, ast.Constant):
                return str(keyword.value.value)
            return short_type(keyword.value).removeprefix("f").strip("'\"")
    return ""


def _type_of(call: ast.Call, at: int) -> str:
    return short_type(call.args[at]) if len(call.args) > at else ""


def _keyword_type(call: ast.Call, name: str) -> str:
    return next((short_type(one.value) for one in call.keywords if one.arg == name), "")


def short_type(expression: ast.expr) -> str:
    """An expression as it is written, in a line of bounded length."""
    text = " ".join(ast.unparse(expression).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _tools_in(call: ast.Call, source: FunctionSource) -> Iterator[str]:
    """Tools that are named in the arguments of a call, alone or in a list of the module."""
    keywords = [one.value for one in call.keywords if one.arg in (None, "tools")]
    for argument in (*call.args, *keywords):
        for part in ast.walk(argument):
            if isinstance(part, ast.Name | ast.Attribute):
                value = source.value_of(part)
                values = value if isinstance(value, tuple | list) else (value,)
                yield from (one.name for one in values if isinstance(one, Tool))


def _function(value: FunctionType, source: FunctionSource) -> CalledFunction | str | None:
    if value.__module__ == source.fn.__module__:
        try:
            found = function_source(value)
        except (UsageError, AssertionError, SyntaxError):
            return None
        return CalledFunction(found.tree, found)
    is_users = not value.__code__.co_filename.startswith(_LIBRARY)
    is_users &= "site-packages" not in value.__code__.co_filename
    if inspect.iscoroutinefunction(value) and is_users:
        return f"{value.__module__}.{value.__name__}"
    return None
