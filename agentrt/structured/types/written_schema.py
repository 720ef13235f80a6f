"""Pydantic's JSON Schema of a type, corrected where it differs from pydantic's reader."""

from __future__ import annotations

import enum
import zoneinfo
from collections.abc import Callable, Hashable
from typing import Any

from pydantic import ByteSize, EncodedStr
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from agentrt.base.held_place import HeldPlace, held_schema
from agentrt.base.one_of import one_of_in
from agentrt.structured.json_schema import formats
from agentrt.structured.json_schema.keywords import without
from agentrt.structured.json_schema.normalize import MAX_NUMBER
from agentrt.structured.types import text_forms
from agentrt.structured.types.alias_paths import with_alias_paths
from agentrt.structured.types.core_schemas import (
    author_of,
    function_of,
    is_library,
    parts_of,
    predicate_of,
)

_MAX_EXACT = 2**53 - 1
_SCALARS = ["string", "number", "boolean", "null"]
_READ_MEMBERS = (str, int)
_UNSAID: set[JsonSchemaWarningKind] = {"skipped-discriminator", "non-serializable-default"}


class WrittenSchema(GenerateJsonSchema):
    """The schema of texts that pydantic reads as a value of the type."""

    ignored_warning_kinds = GenerateJsonSchema.ignored_warning_kinds | _UNSAID

    def __init__(
        self, late: dict[str, HeldPlace], writes_out: bool, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._late = late
        self._writes_out = writes_out  # many options, too
        self._named: set[int] = set()  # ids of the `OneOf` of names, which the schema itself holds
        self._core_of: dict[str, Any] = {}  # by the reference of its definition

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value  # the keys of listed records have an order of their own

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        name = str(getattr(function_of(schema), "__qualname__", ""))
        if name in _NEVER_READ and is_library(function_of(schema)):
            raise PydanticInvalidForJsonSchema(_NEVER_READ[name])
        if _held_inside(schema) is not None:  # what it says of bounds is said of its options
            updates = "pydantic_js_updates"
            schema = {**schema, "metadata": without(schema.get("metadata") or {}, updates)}
        written = super().generate_inner(schema)
        if written.get("format") == "zoneinfo":
            return {"type": "string", "enum": sorted(zoneinfo.available_timezones())}
        return written

    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JsonSchemaValue:
        self._core_of |= {str(one.get("ref")): one for one in schema["definitions"]}
        return super().definitions_schema(schema)

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return self._distinct(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return self._distinct(super().frozenset_schema(schema))

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return text_forms.string(schema, super().str_schema(schema))

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        most, fewest = schema.get("max_length"), schema.get("min_length", 0)
        if most is None:  # a character is one byte or more
            return {"type": "string", "minLength": fewest} if fewest else {"type": "string"}
        return _text(rf"[\x00-\x7F]{{{fewest},{most}}}")

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        written = super().float_schema(schema)
        if "multiple_of" not in schema:
            return written
        if not written.keys() & {"minimum", "exclusiveMinimum"}:
            written["minimum"] = -_MAX_EXACT
        if not written.keys() & {"maximum", "exclusiveMaximum"}:
            written["maximum"] = _MAX_EXACT
        return written

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        return text_forms.date(schema)

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return text_forms.time(schema)

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return text_forms.datetime(schema)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return text_forms.timedelta(schema)

    def uuid_schema(self, schema: core_schema.UuidSchema) -> JsonSchemaValue:
        return _text(formats.uuid(schema.get("version")))

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        schemes = schema.get("allowed_schemes") or ["http", "https", "ftp"]
        return {**_text(formats.url(schemes)), "maxLength": schema.get("max_length", 2083)}

    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> JsonSchemaValue:
        schemes = schema.get("allowed_schemes") or ["http", "https"]
        return {
            **_text(formats.multi_host_url(schemes)),
            "maxLength": schema.get("max_length", 2083),
        }

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        text = text_forms.decimal(schema)
        if text is not None:
            return text
        if schema.get("multiple_of") is not None:  # only a number has one of many digits
            written = super().decimal_schema(schema)
            options = written.get("anyOf", [written])
            number = next(option for option in options if option.get("type") == "number")
            return text_forms.decimal_number(schema, dict(number))
        finite = {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
        return {"anyOf": [finite, _text(formats.decimal(None, None))]}

    def fraction_schema(self, schema: Any) -> JsonSchemaValue:
        written = super().fraction_schema(schema)
        if schema.keys() & {"ge", "gt", "le", "lt", "multiple_of"}:
            return next(one for one in written["anyOf"] if one.get("type") == "number")
        return _text(formats.FRACTION)

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        return _text(formats.COMPLEX)

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        for value in schema["expected"]:
            if isinstance(value, enum.Enum) and not isinstance(value, _READ_MEMBERS):
                raise PydanticInvalidForJsonSchema(
                    f"no text is read as Literal[{value}]: use {type(value).__name__}, or its value"
                )
            if isinstance(value, bytes):
                raise PydanticInvalidForJsonSchema(f"no text is read as the bytes {value!r}")
        return super().literal_schema(schema)

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        return self._with_keys(schema, super().dict_schema)

    def ordered_dict_schema(self, schema: Any) -> JsonSchemaValue:
        return self._with_keys(schema, super().ordered_dict_schema)

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        return self._with_keys(schema, super().counter_schema)

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> JsonSchemaValue:
        return with_alias_paths(super().model_fields_schema(schema), schema["fields"].items())

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return with_alias_paths(super().typed_dict_schema(schema), schema["fields"].items())

    def dataclass_args_schema(self, schema: core_schema.DataclassArgsSchema) -> JsonSchemaValue:
        fields = ((field["name"], field) for field in schema["fields"])
        return with_alias_paths(super().dataclass_args_schema(schema), fields)

    def chain_schema(self, schema: core_schema.ChainSchema) -> JsonSchemaValue:
        last: Any = schema["steps"][-1]
        if last["type"] == "is-instance" and last["cls"] is Hashable:
            return {"type": _SCALARS}
        place = self._held_place(schema)
        if place is not None:
            return self._held(place)
        return super().chain_schema(schema)

    def function_after_schema(
        self, schema: core_schema.AfterValidatorFunctionSchema
    ) -> JsonSchemaValue:
        place = self._held_place(schema)
        if place is not None:
            return self._held(place)
        predicate = predicate_of(schema)
        if predicate is not None:
            return text_forms.fulfilling(predicate, self.generate_inner(schema["schema"]))
        owner = getattr(function_of(schema), "__self__", None)
        if owner is ByteSize:
            return {"anyOf": [{"type": "integer", "minimum": 0}, _text(formats.BYTE_SIZE)]}
        if isinstance(owner, EncodedStr):
            return _text(formats.BASE64_ASCII)
        return super().function_after_schema(schema)

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema("no text is read as a class: use a Literal of names")

    def call_schema(self, schema: core_schema.CallSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema("a function is a tool: use calls(...) or step(...)")

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema("JSON inside of JSON: use the type itself")

    def _held_place(self, schema: Any) -> HeldPlace | None:
        """The place of a `OneOf` within bounds that the library checks; None if there is none."""
        inside = _held_inside(schema)
        one_of = None if inside is None else one_of_in(inside)
        if one_of is None:
            return None
        bounds = None if inside is schema else self._readable(schema)
        return HeldPlace(one_of, self._readable(inside), bounds)

    def _held(self, place: HeldPlace) -> JsonSchemaValue:
        writes_out = self._writes_out or id(place.one_of) in self._named
        return held_schema(place, self._late, "options", writes_out=writes_out)

    def _readable(self, core: Any) -> Any:
        """A core schema with the definitions that it refers to; None if it calls an author."""
        used: dict[str, Any] = {}
        todo = [core]
        while todo:
            for part in parts_of(todo.pop()):
                name = part.get("schema_ref")
                if part["type"] == "definition-ref" and name in self._core_of.keys() - used:
                    todo.append(used.setdefault(name, self._core_of[name]))
        whole = core_schema.definitions_schema(core, list(used.values())) if used else core
        return None if author_of(whole) else whole

    def _with_keys(self, schema: Any, write: Callable[[Any], JsonSchemaValue]) -> JsonSchemaValue:
        """The schema of a dict whose keys are read as their type."""
        named = map(one_of_in, parts_of(schema.get("keys_schema")))
        self._named.update(id(one_of) for one_of in named if one_of is not None)
        written = write(schema)
        keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        if "patternProperties" in written:
            written["additionalProperties"] = False
        names = [name for name in keys.get("enum", ()) if isinstance(name, str)]
        if names:  # others are not read from the text of a key
            written["propertyNames"] = {"enum": names}
        match keys.get("type"):
            case "integer" | "number" if keys.keys() <= {"type"}:
                written["propertyNames"] = {"pattern": formats.anchored(formats.INTEGER_KEY)}
            case "boolean":
                written["propertyNames"] = {"enum": ["true", "false"]}
            case "integer" | "number" | "null" | "array" | "object":
                raise PydanticInvalidForJsonSchema("dict keys must be str, int, bool or an enum")
        return written

    @staticmethod
    def _distinct(written: JsonSchemaValue) -> JsonSchemaValue:
        """Allow duplicates: a set is read from a list and drops them."""
        if written.get("minItems", 0) <= 1:
            written.pop("uniqueItems", None)
        return written


class CheckedSchema(WrittenSchema):
    """The schema of texts that may be read, if that is checked."""

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        return {"type": "string"}


_NEVER_READ = {
    "import_string": "the model would choose what is imported: use a Literal of names",
    "pattern_bytes_validator": "a pattern of bytes is not read from text: use re.Pattern[str]",
}


def _held_inside(schema: Any) -> Any:
    """The schema of a `OneOf` within bounds that the library checks; None if there is none."""
    while one_of_in(schema) is None:
        if schema["type"] == "chain":
            schema = schema["steps"][0]
        elif schema["type"] == "function-after" and is_library(function_of(schema)):
            schema = schema["schema"]
        else:
            return None
    return schema


def _text(pattern: str) -> JsonSchemaValue:
    return {"type": "string", "pattern": formats.anchored(pattern)}
