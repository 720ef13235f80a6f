"""Rules in the types of a record's fields: every flag is checked before the work begins.

A rule is a function of a value and its flag that raises `UsageError`, such as `NumberBounds.check`
or a function that reads the value. A field has it in its type: `Annotated[int, FROM_ONE.check]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from agentrt.lab.number_bounds import check_numbers, flag_of

Rule: TypeAlias = Callable[[Any, str], object]


def rules_of(hint: Any) -> tuple[Rule, ...]:
    """The rules in a type; () if there are none.

    Args:
        hint: Type of a field; what is not callable in it, such as an option of typer, is no rule.
    """
    if get_origin(hint) is not Annotated:
        return ()
    return tuple(one for one in get_args(hint)[1:] if callable(one))


def check_flags(flags: object) -> None:
    """Check every field by the rules in its type, and every number by its bounds.

    Args:
        flags: Record of the flags; a field that is None was not given.

    Raises:
        UsageError: A value breaks a rule; the first one in the order of the fields.
    """
    hints = get_type_hints(type(flags), include_extras=True)
    for name in [one.name for one in fields(flags)]:  # type: ignore[arg-type]
        value = getattr(flags, name)
        for rule in rules_of(hints[name]) if value is not None else ():
            rule(value, flag_of(name))
        check_numbers({name: value})
