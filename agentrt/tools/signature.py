"""The arguments of a tool, from a function's signature."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

from agentrt.base.errors import UsageError
from agentrt.base.record import record

REQUIRED = inspect.Parameter.empty


@record
class Argument:
    """One parameter of a tool.

    Attributes:
        name: Name of the parameter.
        type: Annotation, with names resolved.
        default: Default value, or `REQUIRED`.
    """

    name: str
    type: Any
    default: Any


def site_of(fn: Callable[..., Any]) -> str:
    """`file:line` of the definition of `fn`; "" if unknown."""
    code = getattr(_plain(fn), "__code__", None)
    return _shown(code.co_filename, code.co_firstlineno) if code else ""


def raised_at(fn: Callable[..., Any], error: BaseException) -> str:
    """`file:line` nearest to the raising of `error`, in the file that defines `fn`."""
    code = getattr(_plain(fn), "__code__", None)
    found = site_of(fn)
    step = error.__traceback__
    while code is not None and step is not None:
        if step.tb_frame.f_code.co_filename == code.co_filename:
            found = _shown(code.co_filename, step.tb_lineno)
        step = step.tb_next
    return found


def _shown(file: str, line: int) -> str:
    """A location, relative to the working directory if it is below it."""
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if near.startswith('..') else near}:{line}"


def arguments_of(fn: Callable[..., Any], name: str, where: str) -> tuple[Argument, ...]:
    """The parameters of `fn`.

    Raises:
        UsageError: A parameter cannot be given by name, or has no type.
        NameError: An annotation uses a name that is not defined yet.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"tool {name} has no readable signature: {error}",
            hint="Wrap it in a function with typed parameters",
            where=where,
        ) from error
    hints = get_type_hints(_plain(fn), include_extras=True)
    found: list[Argument] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise UsageError(
                f"tool {name}: parameter {parameter} cannot be given by name",
                hint="Tools are called by name: drop `/` and `*args`",
                where=where,
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            raise UsageError(
                f"tool {name}: parameter **{parameter.name} has no names a model could know",
                hint="Name each parameter",
                where=where,
            )
        if parameter.name not in hints:
            raise UsageError(
                f"tool {name}: parameter {parameter.name} has no type",
                hint=f"Annotate it, e.g. `{parameter.name}: str`",
                where=where,
            )
        found.append(Argument(parameter.name, hints[parameter.name], parameter.default))
    return tuple(found)


def _plain(fn: Callable[..., Any]) -> Any:
    """The function with the annotations."""
    while isinstance(fn, partial):
        fn = fn.func
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = type(fn).__call__
    return inspect.unwrap(fn)
