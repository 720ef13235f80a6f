"""Values of expressions that name types, tools and constants, found without running them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from agentrt.program.code.source import FunctionSource
from agentrt.program.constraints import cfg, choice, json_schema, regex

UNKNOWN: Final = object()
"""The value of an expression that only a run knows."""
_BUILTINS: dict[str, Any] = {
    one.__name__: one for one in (bool, dict, float, frozenset, int, list, set, str, tuple)
}
_CONSTRAINTS: tuple[Callable[..., Any], ...] = (cfg, choice, json_schema, regex)
"""Functions of the language whose calls are evaluated; they only build a constraint."""


def type_value(expression: ast.expr, source: FunctionSource) -> Any:
    """The value of a type expression such as `list[Report] | None`, or `UNKNOWN`.

    Names are looked up in the module. No code runs but that of subscripts and unions of types, and
    of the constraints of the language.

    Raises:
        Exception: A constraint is wrong; the error is that of the language.
    """
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            found = source.value_of(expression)
            return found if found is not None else _BUILTINS.get(name, UNKNOWN)
        case ast.Attribute():
            found = source.value_of(expression)
            return UNKNOWN if found is None else found
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            values = _values(parts, source)
            if values is None:
                return UNKNOWN
            return tuple(values) if isinstance(expression, ast.Tuple) else values
        case ast.Dict(keys=keys, values=parts):
            values = _values(parts, source)
            names = _values([key for key in keys if key is not None], source)
            is_known = names is not None and values is not None and len(names) == len(values)
            return dict(zip(names or (), values or (), strict=True)) if is_known else UNKNOWN
        case ast.Subscript(value=of, slice=index):
            return _applied(operator.getitem, type_value(of, source), type_value(index, source))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _applied(operator.or_, type_value(left, source), type_value(right, source))
        case ast.Call(func=func, args=args, keywords=keywords):
            return _constraint(source.value_of(func), args, keywords, source)
    return UNKNOWN


def _values(expressions: Sequence[ast.expr], source: FunctionSource) -> list[Any] | None:
    """The values of some expressions; None if only a run knows one of them."""
    values = [type_value(one, source) for one in expressions]
    return None if any(one is UNKNOWN for one in values) else values


def _applied(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if left is UNKNOWN or right is UNKNOWN or not _is_type(left):
        return UNKNOWN
    return operation(left, right)


def _is_type(value: Any) -> bool:
    """Whether a value is of the kind on which `[...]` and `|` only make types."""
    return isinstance(value, type) or value is None or type(value).__module__ in ("typing", "types")


def _constraint(
    function: Any, args: list[ast.expr], keywords: list[ast.keyword], source: FunctionSource
) -> Any:
    if not any(function is one for one in _CONSTRAINTS):
        return UNKNOWN
    values = _values(args, source)
    named = _values([one.value for one in keywords], source)
    names = [one.arg for one in keywords if one.arg is not None]
    if values is None or named is None or len(names) < len(keywords):
        return UNKNOWN
    return function(*values, **dict(zip(names, named, strict=True)))
