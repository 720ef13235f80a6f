"""Types as constraints, and captures, for compositions."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from typing_extensions import TypeForm

from agentrt.base.json_style import JsonStyle
from agentrt.program.constraints import Constraint, part_of
from agentrt.program.output_types import shape_for, styled

T = TypeVar("T")


@overload
def typed(form: Constraint[T], *, json_style: JsonStyle | None = None) -> Constraint[T]: ...
@overload
def typed(form: TypeForm[T], *, json_style: JsonStyle | None = None) -> Constraint[T]: ...
def typed(form: Any, *, json_style: JsonStyle | None = None) -> Constraint[Any]:
    """A type as a constraint, to compose it with others.

    Example:
        >>> from agentrt import typed
        >>> "The answer is " + typed(int) + "."
        <Constraint composition>

    Args:
        form: Any type; `str` is free text. Or a constraint, for a style of its JSON.
        json_style: `compact` (by default), `spaced`, with a blank behind each comma and colon, or
            `indented`, with a line for each item.

    Raises:
        ConstraintError: The type cannot be enforced.
        UsageError: The constraint is a grammar, whose JSON has a style of its own.
    """
    if isinstance(form, Constraint) and json_style is None:
        return form
    from agentrt.structured import written_out

    return Constraint(written_out(styled(form, shape_for(form), json_style)))


def capture(name: str, form: Constraint[Any] | TypeForm[Any]) -> Constraint[str]:
    """A part of a composition whose value is kept by name, for `into`.

    Example:
        >>> from agentrt import capture, chat, program, regex
        >>> from typing_extensions import TypedDict
        >>> class Person(TypedDict):
        ...     name: str
        ...     age: int
        >>> LINE = ("Name: " + capture("name", regex("[A-Z][a-z]+"))
        ...     + ", age: " + capture("age", int)).into(Person)
        >>> @program
        ... async def person() -> Person:
        ...     return await chat().user("Name a person.").generate(LINE)
        >>> person.run()
        {'name': 'Ada', 'age': 36}

    Args:
        name: Name of the value. Within a repetition, the value is the list of all.
        form: Any type, or a constraint.

    Raises:
        ConstraintError: The form cannot be enforced.
    """
    from agentrt.structured import Captured, composed_shape

    inner = typed(form)
    part = Captured(name, part_of(inner), inner.shape, form)
    return Constraint(composed_shape(part), part)
