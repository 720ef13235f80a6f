"""The source of a function as a syntax tree whose lines are those of its file."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.program.call_site import shorten

Function = ast.FunctionDef | ast.AsyncFunctionDef


@record
class FunctionSource:
    """The code of one function.

    Attributes:
        tree: The function; its lines are those of the file.
        file: The file, relative to the working directory if it is below it.
        fn: The function itself, whose names can be looked up.
    """

    tree: Function
    file: str
    fn: Callable[..., Any]

    def where(self, node: ast.AST) -> str:
        """`file:line` of a part of it."""
        return f"{self.file}:{getattr(node, 'lineno', self.tree.lineno)}"

    def value_of(self, expression: ast.expr) -> Any:
        """The object that a name means at the top of its module; None if that is not known."""
        if isinstance(expression, ast.Name):
            return _variables(self.fn).get(expression.id)
        if isinstance(expression, ast.Attribute):
            owner = self.value_of(expression.value)
            return (
                inspect.getattr_static(owner, expression.attr, None) if owner is not None else None
            )
        return None


def function_source(fn: Callable[..., Any]) -> FunctionSource:
    """The source of a function.

    Raises:
        UsageError: The function is not in a file, as in a console.
    """
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError):
        raise UsageError(
            f"the source of {getattr(fn, '__name__', fn)!r} cannot be read",
            hint="write the program in a file",
        ) from None
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    (function,) = tree.body
    assert isinstance(function, Function)
    return FunctionSource(function, shorten(fn.__code__.co_filename), fn)


def _variables(fn: Callable[..., Any]) -> dict[str, Any]:
    """Variables around a function: those of its module, and those that it closes over."""
    plain = inspect.unwrap(fn)
    found = dict(getattr(plain, "__globals__", {}))
    names = plain.__code__.co_freevars
    for name, cell in zip(names, plain.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # without a value yet
    return found
