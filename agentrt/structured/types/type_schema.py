"""JSON Schema of a Python type, for the text that a model writes."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, get_origin

from pydantic import TypeAdapter

from agentrt.base.errors import ConstraintError
from agentrt.base.held_place import HeldPlace
from agentrt.structured.json_schema.declaration import normal_form
from agentrt.structured.types.written_schema import CheckedSchema, WrittenSchema


def adapter_of(form: Any) -> TypeAdapter[Any]:
    """Pydantic's parser of a type.

    Raises:
        ConstraintError: The form is not a type that can be read from text.
    """
    try:
        return TypeAdapter(form)
    except Exception as wrong:  # the author's code may take part, and raise anything
        raise _no_type(form, wrong) from None


def schema_of(
    form: Any,
    adapter: TypeAdapter[Any],
    late: dict[str, HeldPlace],
    *,
    checked: bool = False,
    writes_out: bool = False,
) -> dict[str, Any]:
    """The schema of the text that a model should write for `form`.

    Args:
        form: The type.
        adapter: Parser of the type.
        late: Options of the type that are many, or not known yet, are added by the names of their
            holes.
        checked: Whether the schema may allow texts that the parser refuses.
        writes_out: Whether many options are written into the schema.

    Raises:
        ConstraintError: A part of the type has no JSON form.
    """
    written_by: Any = partial(CheckedSchema if checked else WrittenSchema, late, writes_out)
    try:
        schema = adapter.json_schema(mode="validation", by_alias=True, schema_generator=written_by)
    except Exception as wrong:  # the author's code may take part, and raise anything
        raise _no_type(form, wrong) from None
    written: dict[str, Any] = normal_form(schema, name_of(form), narrow=True)
    return written


def name_of(form: Any) -> str:
    """Name of a type for people: `list[Report]`, `int`, without what it is annotated with."""
    if get_origin(form) is Annotated:
        return name_of(form.__origin__)
    if isinstance(form, type) and not getattr(form, "__args__", None):
        return form.__name__
    return str(form).replace("typing.", "").replace("__main__.", "")


def _no_type(form: Any, wrong: Exception) -> ConstraintError:
    reason = (str(wrong).splitlines() or [type(wrong).__name__])[0]
    return ConstraintError(
        f"{name_of(form)} cannot be generated: {reason}",
        hint="Use JSON-like types: str, int, list, Literal, TypedDict, dataclass, pydantic model",
    )
