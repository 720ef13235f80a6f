"""Checked outputs (`check=True`): enforced as far as a grammar can, then validated.

The check is a complete JSON Schema validator, and pydantic for Python types. A value that fails is
refused with a reason that a model can act on. No text is ever repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.exact_check import Unmet, exact_validator, read_written
from agentrt.structured.json_schema.keywords import ANNOTATIONS, with_children
from agentrt.structured.json_schema.normalize import normalize
from agentrt.structured.json_schema.relax import relaxed
from agentrt.structured.json_schema.structure import check_size
from agentrt.structured.types.shape import Shape, enforced_shape, json_spec, shape_of
from agentrt.structured.types.type_schema import adapter_of, name_of, schema_of

MAX_COMPLAINTS = 3
_MAX_CHARACTERS = 300


def checked_schema_shape(schema: dict[str, Any]) -> Shape:
    """JSON that fits a schema, including one that cannot be enforced as a whole.

    Raises:
        ConstraintError: A part of it can neither be enforced nor checked.
    """
    check_size(schema)
    check = _validator(schema)
    enforced = relaxed(normalize(schema), json_spec, _is_checkable)

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
    schema = schema_of(form, adapter, checked=True)
    check = _validator(schema)
    enforced = relaxed(schema, json_spec, _is_checkable)

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
    """A function that raises `Unmet` for a value that does not fit `schema`.

    Raises:
        ConstraintError: `schema` is not a schema, or the validator does not support it.
    """
    import jsonschema
    import referencing

    validator_class = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        validator_class.check_schema(schema, format_checker=jsonschema.FormatChecker(()))
    except jsonschema.SchemaError as wrong:
        pointer = "".join(f"/{part}" for part in wrong.absolute_path)
        raise ConstraintError(
            f"{pointer or '/'}: {wrong.message[:_MAX_CHARACTERS]}",
            pointer=pointer,
            hint="See the JSON Schema specification",
        ) from None
    validator = exact_validator(validator_class)(
        _without_own_patterns(schema),
        format_checker=validator_class.FORMAT_CHECKER,
        registry=referencing.Registry(),  # nothing is fetched
    )

    def check(value: Any) -> None:
        wrong = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
        if wrong:
            raise Unmet(_joined([f"{_location(error.path)}: {error.message}" for error in wrong]))

    return check


def _is_checkable(keyword: str, value: Any) -> bool:
    """Whether the validator checks a keyword, so that it need not be enforced."""
    import jsonschema

    validator = jsonschema.Draft202012Validator
    if keyword == "format":
        return value in validator.FORMAT_CHECKER.checkers
    if keyword in ("pattern", "patternProperties"):
        return all(map(_is_python_regex, [value] if isinstance(value, str) else value))
    known = validator.VALIDATORS.keys() | {"then", "else", "minContains", "maxContains"}
    return keyword in known - ANNOTATIONS and keyword != "$ref"


def _without_own_patterns(schema: Any) -> Any:
    """`schema` without patterns that Python cannot compile: those are enforced, or refused."""
    if not isinstance(schema, dict):
        return schema
    kept = dict(schema)
    odd = [name for name in kept.get("patternProperties", ()) if not _is_python_regex(name)]
    if odd:
        raise ConstraintError(
            f"patternProperties: {odd[0]!r} cannot be checked",
            keyword="patternProperties",
            hint="Write the pattern so that Python's `re` can read it, too",
        )
    if not _is_python_regex(kept.get("pattern", "")):
        del kept["pattern"]
    return with_children(kept, _without_own_patterns)


def _is_python_regex(pattern: Any) -> bool:
    try:
        re.compile(pattern)
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
    return True


def _location(path: Any) -> str:
    """Location in the value, for people."""
    return "/".join(map(str, path)) or "the whole"


def _joined(complaints: list[str]) -> str:
    shown = [one[:_MAX_CHARACTERS] for one in complaints[:MAX_COMPLAINTS]]
    more = len(complaints) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
