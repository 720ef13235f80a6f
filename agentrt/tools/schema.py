"""Arguments of a tool as a model writes them: JSON Schema and validation.

Imported when a tool's schema is first needed, since pydantic is half the time of `import agentrt`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NotRequired, get_args, get_origin

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import (
    PydanticSerializationError,
    SchemaError,
    core_schema,
    to_jsonable_python,
)
from typing_extensions import TypedDict

from agentrt.base.errors import UsageError
from agentrt.base.held_place import HeldPlace, held_schema
from agentrt.base.one_of import one_of_in
from agentrt.tools.signature import REQUIRED, Argument

_PLAIN = frozenset({"str", "int", "float", "bool"})
"""Kinds of core schema that call nothing; options of others are read with a call's arguments."""
TOP_ORDER = ("type", "properties", "required", "additionalProperties", "$defs")


@dataclass(frozen=True, slots=True)
class ArgumentForm:
    """The arguments of a tool as a model writes them.

    Attributes:
        adapter: The validator.
        shown: JSON Schema for prompts.
        held: JSON Schema for constraints: with the options of each `OneOf`.
        late: Options that bound arguments or nodes give, by the names that stand for them in
            `held`.
    """

    adapter: TypeAdapter[dict[str, Any]]
    shown: dict[str, Any]
    held: dict[str, Any]
    late: dict[str, HeldPlace]


def form_of(
    arguments: tuple[Argument, ...], descriptions: Mapping[str, str], name: str, where: str
) -> ArgumentForm:
    """The form of these arguments.

    Raises:
        UsageError: A type or default has no JSON form.
    """
    fields: dict[str, Any] = {}
    for argument in arguments:
        extra = {} if argument.default is REQUIRED else {"default": _default(argument, name, where)}
        described = descriptions.get(argument.name)
        note = Field(description=described, json_schema_extra=extra or None)
        typed = _noted(argument.type, note)
        fields[argument.name] = typed if argument.default is REQUIRED else NotRequired[typed]
    make: Any = TypedDict  # built at run time: type checkers cannot follow
    shape = make("Arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
        shown = _schema_of(adapter, _Untitled)
        late: dict[str, HeldPlace] = {}
        held = _schema_of(adapter, partial(_Held, late, f"tools:{name}"))
    except (PydanticUserError, SchemaError) as error:
        # Checked one by one only now: each costs as much as all of them together.
        odd = next((one for one in arguments if not has_json_form(one.type)), arguments[0])
        raise UsageError(
            f"tool {name}: the type of parameter {odd.name} has no JSON form",
            hint=f"Use JSON-like types, or hide it: `{name}.bind({odd.name}=...)`",
            where=where,
        ) from error
    return ArgumentForm(adapter, shown, held, late)


def checked_form(shown: dict[str, Any], held: dict[str, Any], name: str) -> ArgumentForm:
    """The form of arguments that have a JSON Schema instead of types.

    Args:
        shown: JSON Schema for prompts and for checking.
        held: JSON Schema for constraints.
        name: Name of the tool, for messages.

    Raises:
        UsageError: `shown` is no JSON Schema.
    """
    from jsonschema.exceptions import SchemaError as JsonSchemaError
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(shown, default=Draft202012Validator)
    try:
        kind.check_schema(shown)
    except JsonSchemaError as error:
        raise UsageError(f"tool {name}: its schema is no JSON Schema: {error.message}") from error
    registry: Registry[Any] = Registry()  # a reference is looked up in the schema, never elsewhere
    validator = kind(shown, registry=registry)

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            worst = best_match(validator.iter_errors(arguments))
        except Unresolvable as error:
            raise ValueError(f"a reference of the schema leads nowhere: {error}") from error
        if worst is not None:
            place = ".".join(map(str, worst.absolute_path))
            raise ValueError(f"{place}: {worst.message}" if place else worst.message)
        return arguments

    adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(
        Annotated[dict[str, Any], AfterValidator(check)]
    )
    return ArgumentForm(adapter, shown, held, {})


def has_json_form(form: Any) -> bool:
    """Whether a model can write a value of this type."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TypeAdapter(form).json_schema()
    except (PydanticUserError, SchemaError):
        return False
    return True


def _schema_of(adapter: TypeAdapter[dict[str, Any]], written_by: Any) -> dict[str, Any]:
    """The JSON Schema of the arguments, without titles, properties in the declared order.

    Raises:
        PydanticUserError: A type in it has no JSON form.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = adapter.json_schema(schema_generator=written_by)
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("title", None)
    schema.setdefault("properties", {})
    keys = [*TOP_ORDER, *(key for key in schema if key not in TOP_ORDER)]
    return {key: schema[key] for key in keys if key in schema}


def _noted(form: Any, note: Any) -> Any:
    """`form` with its description in the docstring; its own `Field` takes precedence."""
    own: tuple[Any, ...] = ()
    if get_origin(form) is Annotated:
        form, *rest = get_args(form)
        own = tuple(rest)
    annotated: Any = Annotated
    return annotated[(form, note, *own)]


class _Untitled(GenerateJsonSchema):
    """No titles: they repeat the names, and a model pays for each of their tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value


class _Held(_Untitled):
    """The same with the options of each `OneOf`."""

    def __init__(self, late: dict[str, HeldPlace], prefix: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._late = late
        self._prefix = prefix

    def function_after_schema(
        self, schema: core_schema.AfterValidatorFunctionSchema
    ) -> JsonSchemaValue:
        one_of = one_of_in(schema)
        if one_of is None:
            return super().function_after_schema(schema)
        inside: Any = schema["schema"]
        core = schema if inside["type"] in _PLAIN else None
        place = HeldPlace(one_of, core)  # a tool's options are written once, for all runs
        return held_schema(place, self._late, self._prefix, writes_out=True)


def _default(argument: Argument, name: str, where: str) -> Any:
    try:
        return to_jsonable_python(argument.default)
    except PydanticSerializationError as error:
        raise UsageError(
            f"tool {name}: the default of parameter {argument.name} has no JSON form",
            hint=f"Use a JSON-like default, or hide it: `{name}.bind({argument.name}=...)`",
            where=where,
        ) from error
