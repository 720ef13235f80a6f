"""The JSON Schema of a Python type, as a model should write its values."""

from __future__ import annotations

from typing import Any

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from agentrt.constraints.normal import for_generation
from agentrt.errors import ConstraintError


class WrittenSchema(GenerateJsonSchema):
    """Pydantic's schema, where it differs from what its parser takes brought into line."""

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return self._distinct(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return self._distinct(super().frozenset_schema(schema))

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        written = super().bytes_schema(schema)
        written.pop("format", None)  # the text's UTF-8: any string will do
        return written

    @staticmethod
    def _distinct(written: JsonSchemaValue) -> JsonSchemaValue:
        """A set is read from a list whose repeats are dropped, so repeats do no harm."""
        if written.get("minItems", 0) <= 1:
            written.pop("uniqueItems", None)
        return written


def adapter_of(form: Any) -> TypeAdapter[Any]:
    """Pydantic's reader of a type form.

    Raises:
        ConstraintError: The form is no type that can be read from text.
    """
    try:
        return TypeAdapter(form)
    except (PydanticSchemaGenerationError, PydanticUserError) as wrong:
        raise _no_type(form, wrong) from None
    except (NameError, TypeError) as wrong:
        raise _no_type(form, wrong) from None


def schema_of(form: Any, adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The schema of what a model should write for `form`.

    Raises:
        ConstraintError: A part of the type has no JSON form.
    """
    try:
        schema = adapter.json_schema(
            mode="validation", by_alias=True, schema_generator=WrittenSchema
        )
    except PydanticUserError as wrong:
        raise _no_type(form, wrong) from None
    written: dict[str, Any] = for_generation(schema)
    return written


def name_of(form: Any) -> str:
    """How people call a type: `list[Report]`, `int`."""
    if isinstance(form, type) and not getattr(form, "__args__", None):
        return form.__name__
    return str(form).replace("typing.", "").replace("__main__.", "")


def _no_type(form: Any, wrong: Exception) -> ConstraintError:
    reason = str(wrong).splitlines()[0]
    return ConstraintError(
        f"{name_of(form)} cannot be generated: {reason}",
        hint="Use JSON-like types: str, int, list, Literal, TypedDict, dataclass, pydantic model",
    )
