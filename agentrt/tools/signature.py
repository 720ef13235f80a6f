"""A function's signature as the arguments that a model writes: JSON Schema and validation."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from agentrt.errors import UsageError

REQUIRED = inspect.Parameter.empty
TOP_ORDER = ("type", "properties", "required", "additionalProperties", "$defs")


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a tool.

    Attributes:
        name: Of the parameter.
        type: Its annotation, names resolved.
        default: Its default, or `REQUIRED`.
    """

    name: str
    type: Any
    default: Any


def site_of(fn: Callable[..., Any]) -> str:
    """`file:line` where `fn` is defined; "" when it cannot be told."""
    code = getattr(_plain(fn), "__code__", None)
    return _shown(code.co_filename, code.co_firstlineno) if code else ""


def raised_at(fn: Callable[..., Any], error: BaseException) -> str:
    """`file:line` nearest to where `error` was raised, in the file that defines `fn`."""
    code = getattr(_plain(fn), "__code__", None)
    found = site_of(fn)
    step = error.__traceback__
    while code is not None and step is not None:
        if step.tb_frame.f_code.co_filename == code.co_filename:
            found = _shown(code.co_filename, step.tb_lineno)
        step = step.tb_next
    return found


def _shown(file: str, line: int) -> str:
    """A place, relative to the working directory where it lies below it."""
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if near.startswith('..') else near}:{line}"


def arguments_of(fn: Callable[..., Any], name: str, where: str) -> tuple[Argument, ...]:
    """The parameters of `fn`.

    Raises:
        UsageError: A parameter that cannot be given by name, or has no type.
        NameError: An annotation names what is not defined yet.
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


def adapter_of(
    arguments: tuple[Argument, ...], descriptions: Mapping[str, str], name: str, where: str
) -> TypeAdapter[dict[str, Any]]:
    """What validates these arguments.

    Raises:
        UsageError: A type or default that has no JSON form.
    """
    fields: dict[str, Any] = {}
    for argument in arguments:
        extra = {} if argument.default is REQUIRED else {"default": _default(argument, name, where)}
        described = descriptions.get(argument.name)
        note = Field(description=described, json_schema_extra=extra or None)
        typed = _noted(argument.type, note)
        _check(argument, typed, name, where)
        fields[argument.name] = typed if argument.default is REQUIRED else NotRequired[typed]
    make: Any = TypedDict  # made of what is known only now: checkers cannot follow
    shape = make("Arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    return TypeAdapter(shape)


def schema_of(adapter: TypeAdapter[dict[str, Any]]) -> dict[str, Any]:
    """The JSON Schema of the arguments, without titles, properties as they are declared."""
    schema = adapter.json_schema(schema_generator=_Untitled)
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("title", None)
    schema.setdefault("properties", {})
    keys = [*TOP_ORDER, *(key for key in schema if key not in TOP_ORDER)]
    return {key: schema[key] for key in keys if key in schema}


def _noted(form: Any, note: Any) -> Any:
    """`form` with what the docstring says of it; what its own `Field` says goes before."""
    own: tuple[Any, ...] = ()
    if get_origin(form) is Annotated:
        form, *rest = get_args(form)
        own = tuple(rest)
    annotated: Any = Annotated
    return annotated[(form, note, *own)]


class _Untitled(GenerateJsonSchema):
    """Titles repeat what names say; models pay for each of their tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value


def _check(argument: Argument, typed: Any, name: str, where: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TypeAdapter(typed).json_schema()
    except PydanticUserError as error:
        raise UsageError(
            f"tool {name}: the type of parameter {argument.name} has no JSON form",
            hint=f"Use JSON-like types, or hide it: `{name}.bind({argument.name}=...)`",
            where=where,
        ) from error


def _default(argument: Argument, name: str, where: str) -> Any:
    try:
        return to_jsonable_python(argument.default)
    except PydanticSerializationError as error:
        raise UsageError(
            f"tool {name}: the default of parameter {argument.name} has no JSON form",
            hint=f"Use a JSON-like default, or hide it: `{name}.bind({argument.name}=...)`",
            where=where,
        ) from error


def _plain(fn: Callable[..., Any]) -> Any:
    """The function that carries the annotations."""
    while isinstance(fn, partial):
        fn = fn.func
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = type(fn).__call__
    return inspect.unwrap(fn)
