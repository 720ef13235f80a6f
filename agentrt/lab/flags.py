"""Command line flags as records: each field of a record is a flag of its command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from agentrt.base.cpu_cores import at_most_cores
from agentrt.base.engine_extra import require_packages
from agentrt.base.engines.setting_errors import meant
from agentrt.base.errors import UsageError
from agentrt.lab.flag_rules import check_flags
from agentrt.lab.number_bounds import (
    COUNT,
    FACTOR,
    FROM_ONE,
    MOST_TOKENS,
    RATE,
    NumberBounds,
    flag_of,
)
from agentrt.lab.path_rules import output_file
from agentrt.tools.docstring import read_docstring

FlagsT = TypeVar("FlagsT")

Threads = Annotated[
    int,
    typer.Option(
        callback=at_most_cores,
        help="Threads of our engine; 0 lets it choose, else at most one a core.",
    ),
]
JsonPath = Annotated[
    Path | None,
    typer.Option("--json", metavar="PATH", help="Write all of it there."),
    output_file,
]
HtmlPath = Annotated[
    Path | None,
    typer.Option("--html", metavar="PATH", help="Write a page with plots there."),
    output_file,
]
RESUME = typer.Option(
    "--resume",
    metavar="FILE",
    help="Go on with the plays of this file, or begin it; another machine, code or scale is "
    "refused.",
)
"""Option of a file with earlier plays; the rule beside it names the schema of the file."""
Tenants = Annotated[
    int, typer.Option(help="Tenants among whom programs are dealt out."), FROM_ONE.check
]
Seed = Annotated[int, typer.Option(help="Seed of programs and arrivals.")]
Count = Annotated[int, FROM_ONE.check]
"""A number of things, at least one."""
Repeats = Annotated[int, NumberBounds(1, 10_000).check]
"""Rounds, draws or plays that count."""
Memory = Annotated[int, NumberBounds(16, MOST_TOKENS).check]
"""Tokens of KV memory: a page or more."""
Slowdown = Annotated[float, NumberBounds(1.01, 1000).check]


def add_command(app: typer.Typer, run: Callable[[FlagsT], int | None]) -> None:
    """Register a function of one record as a command of that name, for the embedded engine.

    Its flags are checked by the rules in their types before the work.

    The docstring of the record has the help of each field, unless the field is `Annotated` with its
    `typer.Option`.

    Args:
        app: Commands to add to.
        run: The function; the code with which the command exits is 0 for None.
    """
    (flags,) = (hint for name, hint in get_type_hints(run).items() if name != "return")
    hints = get_type_hints(flags, include_extras=True)
    helps: dict[str, str] = {}
    for one in reversed(flags.__mro__):
        helps |= read_docstring(one.__doc__).arguments
    parameters = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
            annotation=_option(one.name, hints[one.name], helps.get(one.name)),
        )
        for one in fields(flags)
    ]

    def command(**given: Any) -> int:
        require_packages("the laboratory")
        asked = flags(**given)
        check_flags(asked)
        return run(asked) or 0

    command.__doc__ = run.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app.command(run.__name__)(command)


def _option(name: str, hint: Any, help: str | None) -> Any:
    """The type of a field with the option of its flag: `--json` for a field `json_path`."""
    if get_origin(hint) is Annotated:
        if any(isinstance(one, OptionInfo | ArgumentInfo) for one in get_args(hint)):
            return hint
        hint = get_args(hint)[0]
    flag, metavar = flag_of(name), None
    if Path in (hint, *get_args(hint)):
        metavar = "PATH" if name.endswith("_path") else "FOLDER"
    return Annotated[hint, typer.Option(flag, metavar=metavar, help=help)]


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def numbers(text: str, flag: str, bounds: NumberBounds = COUNT) -> tuple[int, ...]:
    """Whole numbers separated by commas, each once.

    Raises:
        UsageError: A part is no whole number, or is out of range.
    """
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{flag} {text} is no list of whole numbers", hint=f"Write {flag} 1,4,16"
        ) from None
    for one in found:
        bounds.check(one, flag)
    return tuple(dict.fromkeys(found))


def rate_factors(text: str, flag: str) -> tuple[float, ...]:
    """Factors on a rate, separated by commas, each once.

    Raises:
        UsageError: A part is no number above 0, or is out of range.
    """
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{flag} {text} is no list of numbers", hint=f"Write {flag} 0.5,1"
        ) from None
    for one in found:
        replace(FACTOR, takes_zero=False).check(one, flag)
    return tuple(dict.fromkeys(found))


def factors(text: str, flag: str) -> dict[str, float]:
    """Names and numbers, such as `output=0.1,time=0.5`.

    Raises:
        UsageError: A part is no name with a number, or a name is given twice.
    """
    hint = f"Write {flag} output=0.1,time=0.5"
    try:
        pairs = (part.split("=") for part in text.split(",") if part)
        found = [(name.strip(), float(value)) for name, value in pairs]
    except ValueError:
        raise UsageError(f"{flag} {text} is no list of factors", hint=hint) from None
    require(len(dict(found)) == len(found), f"{flag} {text} gives a factor twice", hint)
    return dict(found)


def rate_of(text: str, flag: str) -> float:
    """Programs a second; 0 for `auto`.

    Raises:
        UsageError: The text is no rate, or one that is out of range.
    """
    try:
        found = 0.0 if text == "auto" else float(text)
    except ValueError:
        found = -1.0
    positive = text == "auto" or found > 0
    require(positive, f"{flag} {text} is no rate", "Give programs a second, or auto")
    RATE.check(found, flag)
    return found


def require(holds: bool, message: str, hint: str) -> None:
    """Check a flag.

    Raises:
        UsageError: The flag does not hold.
    """
    if not holds:
        raise UsageError(message, hint=hint)


def check_known(flag: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Check that every name is known.

    Raises:
        UsageError: One is not.
    """
    for name in given:
        require(bool(name), f"{flag} has an empty name", f"Use some of {', '.join(known)}")
        near = meant(name, known)
        require(
            name in known, f"{flag} {name} is not known{near}", f"Use some of {', '.join(known)}"
        )
