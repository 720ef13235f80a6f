"""Checked outputs (`check=True`): enforced as far as a grammar can, then validated.

The check is a complete JSON Schema validator, and pydantic for Python types. A value that fails is
refused with a reason that a model can act on. No text is ever repaired.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agentrt.base.errors import ConstraintError
from agentrt.base.held_place import HeldPlace
from agentrt.structured.json_schema.declaration import normal_form, relaxed_form
from agentrt.structured.json_schema.drafts import annotates_formats
from agentrt.structured.json_schema.exact_check import Unmet, exact_validator, read_written
from agentrt.structured.types.shape import Shape, enforced_shape, shape_of
from agentrt.structured.types.type_schema import adapter_of, name_of, schema_of

MAX_COMPLAINTS = 3
_MAX_CHARACTERS = 300


def checked_schema_shape(schema: dict[str, Any], *, is_part: bool = False) -> Shape:
    """JSON that fits a schema, including one that cannot be enforced as a whole.

    Args:
        schema: The schema.
        is_part: Whether its grammar is part of a larger one, which holds less.

    Raises:
        ConstraintError: A part of it can neither be enforced nor checked.
    """
    enforced = relaxed_form(normal_form(schema), schema, is_part=is_part)
    check = _validator(enforced.judged)

    def parse(text: str) -> Any:
        value = json.loads(text)
        check(read_written(text))
        return value

    return Shape(enforced.spec, parse, "json_schema", enforced.schema, checked=True)


def checked_shape_of(form: Any) -> Shape:
    """The shape of a type's values; its validators may refuse values that the grammar allows.

    Raises:
        ConstraintError: The form is not a type, or part of it can neither be enforced nor checked.
    """
    if form is str or isinstance(form, Shape):
        return shape_of(form)
    adapter = adapter_of(form)
    try:
        shape = enforced_shape(form, adapter)
    except ConstraintError:
        return _partly(form, adapter)
    return replace(shape, parse=_brief(shape.parse), item=None, checked=True)


def _partly(form: Any, adapter: TypeAdapter[Any]) -> Shape:
    """A type with keywords that cannot be enforced."""
    late: dict[str, HeldPlace] = {}
    schema = schema_of(form, adapter, late, checked=True, writes_out=True)
    if late:
        raise ConstraintError(
            f"{name_of(form)} holds late options, and other parts of it can only be checked",
            hint="Await the nodes that OneOf was given first, or enforce the other parts",
        )
    enforced = relaxed_form(schema, schema)
    check = _validator(enforced.judged)

    def parse(text: str) -> Any:
        check(read_written(text))
        return adapter.validate_json(text)

    return Shape(enforced.spec, _brief(parse), name_of(form), enforced.schema, checked=True)


def _brief(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """`parse`, with pydantic's errors in one line."""

    def parse_briefly(text: str) -> Any:
        try:
            return parse(text)
        except ValidationError as wrong:
            errors = wrong.errors(include_url=False, include_input=False, include_context=False)
            messages = [f"{_location(error['loc'])}: {error['msg']}" for error in errors]
            raise Unmet(_joined(messages)) from None

    return parse_briefly


def _validator(schema: Any) -> Callable[[Any], None]:
    """A function that raises `Unmet` for a value that does not fit `schema`."""
    import jsonschema
    import referencing

    validator_class = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    asserted = None if annotates_formats(schema) else validator_class.FORMAT_CHECKER
    validator = exact_validator(validator_class)(
        schema,
        format_checker=asserted,
        registry=referencing.Registry(),  # nothing is fetched
    )

    def check(value: Any) -> None:
        wrong = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
        if wrong:
            raise Unmet(_joined([f"{_location(error.path)}: {error.message}" for error in wrong]))

    return check


def _location(path: Any) -> str:
    """Location in the value, for people."""
    return "/".join(map(str, path)) or "the whole"


def _joined(complaints: list[str]) -> str:
    shown = [one[:_MAX_CHARACTERS] for one in complaints[:MAX_COMPLAINTS]]
    more = len(complaints) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
