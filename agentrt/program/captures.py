"""Types as constraints, and captures, for compositions."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from typing_extensions import TypeForm

from agentrt.program.constraints import Constraint, part_of
from agentrt.program.output_types import shape_for

T = TypeVar("T")


@overload
def typed(form: Constraint[T]) -> Constraint[T]: ...
@overload
def typed(form: TypeForm[T]) -> Constraint[T]: ...
def typed(form: Any) -> Constraint[Any]:
    """A type as a constraint, to compose it with others.

    Example:
        >>> from agentrt import typed
        >>> "The answer is " + typed(int) + "."
        <Constraint composition>

    Args:
        form: Any type; `str` is free text.

    Raises:
        ConstraintError: The type cannot be enforced.
    """
    return form if isinstance(form, Constraint) else Constraint(shape_for(form))


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
