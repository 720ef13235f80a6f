# mypy: disable-error-code="misc,type-arg"
"""Types that no text can be of."""

import collections.abc
from collections.abc import Callable
from typing import Annotated, Any

import annotated_types as at
import pydantic
from pydantic import BaseModel, ConfigDict
from pydantic_core import core_schema as cs


class Anything:
    """A class that no text describes."""


def arbitrary(form: Any) -> Any:
    return pydantic.create_model("Odd", __config__=ConfigDict(arbitrary_types_allowed=True),
                                 field=(form, ...))  # fmt: skip


def function(value: int, *more: str, flag: bool = False) -> int:
    return value


def schema(core: Any) -> Any:
    return Annotated[int, pydantic.GetPydanticSchema(lambda form, to: core)]


IMPOSSIBLE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "frozendict": ("it needs Python 3.15", (schema(cs.frozendict_schema()),)),
    "invalid": ("no value is of it", (schema(cs.invalid_schema()),)),
    "ellipsis": ("no text says it", (type(...), list[type(...)], tuple[type(...), int])),
    "callable": ("no text is a function", (Callable[[int], str], list[Callable[..., Any]],
                                           collections.abc.Callable)),
    "is-instance": ("no text is an object", (arbitrary(Anything), pydantic.InstanceOf[Anything],
                                             list[arbitrary(Anything)])),
    "is-subclass": ("no text is a class", (type[int], list[type[BaseModel]], dict[str, type])),
    "call": ("it calls a function", (function, list.append, schema(cs.call_schema(
        cs.arguments_schema([]), function)))),
    "arguments": ("they are for a function", (schema(cs.arguments_schema(
        [cs.arguments_parameter("a", cs.int_schema())])),)),
    "arguments-v3": ("they are for a function", (schema(cs.arguments_v3_schema(
        [cs.arguments_v3_parameter("a", cs.int_schema())])),)),
    "not finite": ("JSON has no such number", (at.IsNan[float], at.IsInfinite[float],
                                               at.IsNotFinite[float])),
    "import": ("the model would choose what is imported", (pydantic.ImportString,
                                                           list[pydantic.ImportString])),
    "unhashable": ("no item can be in a set", (set[list[int]], dict[str, set[dict[str, int]]])),
}  # fmt: skip
"""Kinds that no text can be of, why, and types of them: these are refused with a message."""
