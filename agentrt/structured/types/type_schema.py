"""JSON Schema of a Python type, for the text that a model writes."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from agentrt.base.errors import ConstraintError
from agentrt.base.one_of import OneOf, held_schema
from agentrt.structured.json_schema import formats
from agentrt.structured.json_schema.declaration import normal_form
from agentrt.structured.json_schema.normalize import MAX_NUMBER
from agentrt.structured.json_schema.number_range import Bound, DecimalRange, exact
from agentrt.structured.json_schema.number_steps import step_terms
from agentrt.structured.json_schema.number_text import number_terms


class WrittenSchema(GenerateJsonSchema):
    """Pydantic's schema, corrected where it differs from pydantic's parser."""

    def __init__(self, late: dict[str, OneOf], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._late = late

    def function_after_schema(
        self, schema: core_schema.AfterValidatorFunctionSchema
    ) -> JsonSchemaValue:
        held = held_schema(schema, self._late, "options")
        return super().function_after_schema(schema) if held is None else held

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value  # the keys of listed records have an order of their own

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return self._distinct(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return self._distinct(super().frozenset_schema(schema))

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        return _text(formats.DATE)

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return _text(formats.PYTHON_TIME)

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        zone = schema.get("tz_constraint")
        if zone is None:
            return _text(formats.PYTHON_DATETIME)
        return _text(formats.NAIVE_DATETIME if zone == "naive" else formats.AWARE_DATETIME)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return _text(formats.DURATION)

    def uuid_schema(self, schema: core_schema.UuidSchema) -> JsonSchemaValue:
        return _text(formats.uuid(schema.get("version")))

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        schemes = schema.get("allowed_schemes") or ["http", "https", "ftp"]
        return {**_text(formats.url(schemes)), "maxLength": schema.get("max_length", 2083)}

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        text = _decimal_text(schema)
        if text is not None:
            return text
        if schema.get("multiple_of") is not None:  # only a number has one of many digits
            written = super().decimal_schema(schema)
            options = written.get("anyOf", [written])
            return dict(next(option for option in options if option.get("type") == "number"))
        finite = {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
        return {"anyOf": [finite, _text(formats.decimal(None, None))]}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        written = super().dict_schema(schema)
        keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        if "patternProperties" in written:
            written["additionalProperties"] = False
        match keys.get("type"):
            case "integer" | "number" if keys.keys() <= {"type"}:
                written["propertyNames"] = {"pattern": formats.anchored(formats.INTEGER_KEY)}
            case "boolean":
                written["propertyNames"] = {"enum": ["true", "false"]}
            case "integer" | "number" | "null":
                raise PydanticInvalidForJsonSchema("dict keys must be str, int, bool or an enum")
        return written

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema("complex numbers have no JSON form")

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema("JSON inside of JSON: use the type itself")

    @staticmethod
    def _distinct(written: JsonSchemaValue) -> JsonSchemaValue:
        """Allow duplicates: a set is read from a list and drops them."""
        if written.get("minItems", 0) <= 1:
            written.pop("uniqueItems", None)
        return written


def adapter_of(form: Any) -> TypeAdapter[Any]:
    """Pydantic's parser of a type.

    Raises:
        ConstraintError: The form is not a type that can be read from text.
    """
    try:
        return TypeAdapter(form)
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError) as wrong:
        raise _no_type(form, wrong) from None


def schema_of(form: Any, adapter: TypeAdapter[Any], late: dict[str, OneOf]) -> dict[str, Any]:
    """The schema of the text that a model should write for `form`.

    Args:
        form: The type.
        adapter: Parser of the type.
        late: Options of the type that are not known yet are added, by the names of their holes.

    Raises:
        ConstraintError: A part of the type has no JSON form.
    """
    written_by: Any = partial(WrittenSchema, late)
    try:
        schema = adapter.json_schema(mode="validation", by_alias=True, schema_generator=written_by)
    except PydanticUserError as wrong:
        raise _no_type(form, wrong) from None
    written: dict[str, Any] = normal_form(schema, name_of(form), narrow=True)
    return written


def name_of(form: Any) -> str:
    """Name of a type for people: `list[Report]`, `int`."""
    if isinstance(form, type) and not getattr(form, "__args__", None):
        return form.__name__
    return str(form).replace("typing.", "").replace("__main__.", "")


def _no_type(form: Any, wrong: Exception) -> ConstraintError:
    reason = str(wrong).splitlines()[0]
    return ConstraintError(
        f"{name_of(form)} cannot be generated: {reason}",
        hint="Use JSON-like types: str, int, list, Literal, TypedDict, dataclass, pydantic model",
    )


def _text(pattern: str) -> JsonSchemaValue:
    return {"type": "string", "pattern": formats.anchored(pattern)}


def _decimal_text(schema: core_schema.DecimalSchema) -> JsonSchemaValue | None:
    """Decimals with bounds or counted digits, as text: a number would be read as a float.

    None if there are neither, or if they have no regex.
    """
    ends = {keyword: schema[keyword] for keyword in ("ge", "gt", "le", "lt") if keyword in schema}
    step, counted = (
        schema.get("multiple_of"),
        (schema.get("max_digits"), schema.get("decimal_places")),
    )
    if not ends and step is None and counted == (None, None):
        return None
    lows = [Bound(exact(ends[k]), k == "gt") for k in ("ge", "gt") if k in ends]
    highs = [Bound(exact(ends[k]), k == "lt") for k in ("le", "lt") if k in ends]
    numbers = DecimalRange(
        False,
        max(lows, key=lambda end: (end.at, end.open), default=None),
        min(highs, key=lambda end: (end.at, not end.open), default=None),
    )
    steps = () if step is None else step_terms(exact(step))
    if steps is None:
        return None
    patterns = [*number_terms(numbers)[1:], *steps]
    most_whole = max([19, *(len(str(int(abs(end.at)))) + 1 for end in (*lows, *highs))]) - 1
    digits = formats.decimal(*counted, most_whole)
    further = [{"pattern": formats.anchored(one)} for one in patterns]
    return {**_text(digits), "allOf": further} if further else _text(digits)
