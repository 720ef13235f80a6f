"""Conversion of text and JSON to the value of a parameter."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from agentrt.base.errors import UsageError
from agentrt.cli.parameters import Parameter, bare, is_chat, is_many, item_of, metavar


def from_flag(parameter: Parameter, given: str | bool | list[str], *, where: str) -> Any:
    """The value of a flag.

    Raises:
        UsageError: The value does not fit the parameter's type.
    """
    if isinstance(given, bool):
        return given
    if isinstance(given, list) and len(given) == 1 and given[0][:1] in ("[", "@"):
        given = given[0]
        return from_json(
            parameter, read_json(given, where=parameter.flag), where=where, by_flag=True
        )
    try:
        if isinstance(given, list):
            items = [from_text(item_of(parameter.form), one) for one in given]
            return adapter(parameter, where).validate_python(items)
        if is_chat(parameter.form) or (
            given[:1] in ("@", "{", "[") and not is_text(parameter.form)
        ):
            return from_json(
                parameter, read_json(given, where=parameter.flag), where=where, by_flag=True
            )
        adapter(parameter, where)  # refuses types without a text form
        return from_text(parameter.form, given)
    except ValidationError as error:
        raise mistyped(parameter, given, error, where) from None


def from_json(parameter: Parameter, given: Any, *, where: str, by_flag: bool = False) -> Any:
    """The value of a parameter given in JSON, of which it may be all that its flag gives.

    Raises:
        UsageError: The value does not fit the parameter's type.
    """
    try:
        return adapter(parameter, where).validate_python(given)
    except ValidationError as error:
        raise mistyped(parameter, given, error, where, in_json=not by_flag) from None


def from_text(form: Any, text: str) -> Any:
    """`text` as a value of `form`: read like pydantic's strings, else as JSON."""
    reader: TypeAdapter[Any] = TypeAdapter(form)
    try:
        return reader.validate_strings(text)
    except ValidationError as error:
        try:
            plain = json.loads(text)
        except ValueError:
            raise error from None
        if isinstance(plain, str):
            raise
        return reader.validate_python(plain)


def is_text(form: Any) -> bool:
    """Whether text itself is a value of `form`, so that a leading `@` is part of it."""
    plain = bare(form)
    if get_origin(plain) in (Union, types.UnionType):
        return any(is_text(one) for one in get_args(plain))
    return isinstance(plain, type) and issubclass(plain, str | Path)


def adapter(parameter: Parameter, where: str) -> TypeAdapter[Any]:
    """Validator of the parameter's type."""
    try:
        return TypeAdapter(parameter.form)
    except (PydanticUserError, NameError) as error:
        raise UsageError(
            f"parameter `{parameter.name}` has a form that no flag can give: {parameter.form!r}",
            hint="give it a default, or a type that JSON can carry",
            where=where,
        ) from error


def read_json(given: str, *, where: str) -> Any:
    """JSON from the text itself, from `@file`, or from standard input with `-`.

    Raises:
        UsageError: The file cannot be read or is not JSON.
    """
    text, source = read_source(given, where=where)
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{source} is not JSON: {error}",
            hint=f"give {where} JSON, or @FILE with JSON in it",
        ) from None


def read_source(given: str, *, where: str) -> tuple[str, str]:
    """The text of `@file`, `-` or the argument itself, and its name for errors."""
    if given == "-":
        return sys.stdin.read(), "standard input"
    if not given.startswith("@"):
        return given, f"the value of {where}"
    path = Path(given[1:])
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        at = "" if where == "--batch" else ": @FILE"
        which = "of UTF-8 text" if path.is_file() else "that exists"
        raise UsageError(
            f"{path} cannot be read: {reason}", hint=f"give {where} a file {which}{at}"
        ) from None


def mistyped(
    parameter: Parameter, given: Any, error: ValidationError, where: str, *, in_json: bool = False
) -> UsageError:
    """Usage error for the first fault of a value, given by its flag or in JSON."""
    first = error.errors(include_url=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    shown = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    if in_json:
        if isinstance(given, str):
            shown = json.dumps(given, ensure_ascii=False)
        return UsageError(
            f"`{parameter.name}`{path}: {first['msg'].lower()}, and it is {shown[:80]}",
            hint=f"give `{parameter.name}` as {metavar(parameter.form)} in JSON",
            where=where,
        )
    many = " (repeat the flag for more)" if is_many(parameter.form) else ""
    return UsageError(
        f"{parameter.flag}{path} {first['msg'].lower()}: {shown[:80]!r}",
        hint=f"give {parameter.flag} {metavar(parameter.form)}{many}",
        where=where,
    )
