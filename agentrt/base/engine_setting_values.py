"""Values that settings of the embedded engine take, by the types of `EngineConfig`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agentrt.base.config import EngineConfig
from agentrt.base.prices import Prices

_LEFT = ("model_path", "replay", "prices", "adapters")
"""Settings with a form of their own in files."""


@cache
def setting_types() -> dict[str, Any]:
    """Types of the settings that a file may give as plain values, by name.

    Example:
        >>> setting_types()["max_running"]
        <class 'int'>
    """
    hints = get_type_hints(EngineConfig, localns={"Prices": Prices})
    return {one.name: hints[one.name] for one in fields(EngineConfig) if one.name not in _LEFT}


def fits(value: Any, form: Any) -> bool:
    """Whether a value of TOML or JSON is one of a type; numbers are not negative.

    Example:
        >>> fits("auto", int | Literal["auto", "off"]), fits(-1, int)
        (True, False)
    """
    if get_origin(form) is Literal:
        return value in get_args(form)
    if form in (int, bool):
        return type(value) is form and value >= 0
    if form in (Path, str):
        return isinstance(value, str)
    return any(fits(value, one) for one in get_args(form))


def allowed(form: Any) -> str:
    """The values of a type in words, as the hint of an error.

    Example:
        >>> allowed(int | Literal["auto", "off"])
        'give a whole number or one of auto, off'
    """
    if get_origin(form) is Literal:
        return f"give one of {', '.join(map(str, get_args(form)))}"
    names = {int: "a whole number", bool: "true or false", Path: "a folder", str: "a text"}
    if form in names:
        return f"give {names[form]}"
    told: Iterable[str] = (
        allowed(one).removeprefix("give ") for one in get_args(form) if one is not type(None)
    )
    return f"give {' or '.join(told)}"


def read_value(text: str, form: Any) -> Any:
    """The value of a type that a text stands for; None if it is none.

    Example:
        >>> read_value("8", int | Literal["auto"]), read_value("on", bool)
        (8, None)
    """
    values: list[Any] = [text]
    if text.isascii() and text.isdigit():
        values.append(int(text))
    if text in ("true", "false"):
        values.append(text == "true")
    return next((one for one in values if fits(one, form)), None)
