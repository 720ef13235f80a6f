"""Flags of a program: names, types and help of its parameters, from signature and docstring."""

from __future__ import annotations

import inspect
import types
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from agentrt.base.errors import ProgramError
from agentrt.base.record import record

REQUIRED: Any = inspect.Parameter.empty


@record
class Parameter:
    """One parameter of a program.

    Attributes:
        name: Name in the signature.
        form: Type, `Annotated` included.
        default: Default value, or `REQUIRED`.
        text: Help; "" without a description in the docstring.
    """

    name: str
    form: Any
    default: Any = REQUIRED
    text: str = ""

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is REQUIRED


def parameters_of(program: Any) -> tuple[Parameter, ...]:
    """The parameters of a program, in order.

    Raises:
        ProgramError: `*args` or `**kwargs` have no names for flags.
    """
    from agentrt.tools.docstring import read_docstring

    function = inspect.unwrap(program)
    forms = get_type_hints(function, include_extras=True)
    texts = read_docstring(function.__doc__).arguments
    found: list[Parameter] = []
    for name, one in inspect.signature(function).parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise ProgramError(
                f"parameter `{one}` of {function.__name__} has no name to make a flag of",
                hint="give each parameter of a program a name and a type",
                where=location_of(program),
            )
        form = forms.get(name, str)
        found.append(Parameter(name, form, one.default, texts.get(name) or described(form)))
    return tuple(found)


def location_of(program: Any) -> str:
    """`file:line` of the program's function."""
    function = inspect.unwrap(program)
    from agentrt.cli.error_report import shortened

    code = function.__code__
    return f"{shortened(Path(code.co_filename))}:{code.co_firstlineno} in {function.__name__}"


def described(form: Any) -> str:
    """Description within an `Annotated` type: a `Field(description=...)`, a `Doc`, or a text."""
    if get_origin(form) is not Annotated:
        return ""
    for extra in get_args(form)[1:]:
        text = extra if isinstance(extra, str) else None
        text = text or getattr(extra, "description", None) or getattr(extra, "documentation", None)
        if text:
            return str(text)
    return ""


def bare(form: Any) -> Any:
    """The type without `Annotated` and without `| None`."""
    if get_origin(form) is Annotated:
        return bare(get_args(form)[0])
    if get_origin(form) in (Union, types.UnionType):
        rest = [one for one in get_args(form) if one is not type(None)]
        if len(rest) == 1:
            return bare(rest[0])
    return form


def is_many(form: Any) -> bool:
    """Whether the flag is repeated, once an item."""
    return get_origin(bare(form)) in (list, set, frozenset) or (
        get_origin(bare(form)) is tuple and get_args(bare(form))[1:] == (...,)
    )


def item_of(form: Any) -> Any:
    """The type of one item of a repeated flag."""
    return (get_args(bare(form)) or (str,))[0]


def is_chat(form: Any) -> bool:
    """Whether the parameter is a chat, given as a file of messages."""
    from agentrt.program import Chat

    return bare(form) is Chat


def metavar(form: Any) -> str:
    """Placeholder of a flag's value in the help."""
    plain = bare(form)
    if is_many(form):
        return metavar(item_of(form))
    if get_origin(plain) is Literal:
        return "[" + "|".join(str(value) for value in get_args(plain)) + "]"
    if isinstance(plain, type):
        if issubclass(plain, Enum):
            return "[" + "|".join(str(one.value) for one in plain) + "]"
        if issubclass(plain, Path):
            return "PATH"
        known = {str: "TEXT", int: "INTEGER", float: "NUMBER", bool: "BOOLEAN"}
        if plain in known:
            return known[plain]
    return "@MESSAGES.json" if is_chat(form) else "JSON|@FILE"
