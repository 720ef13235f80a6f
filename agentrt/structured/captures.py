"""Shapes of composed constraints: the text as a whole, or the values of its captures."""

from __future__ import annotations

import dataclasses
import types
from functools import partial
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from typing_extensions import ReadOnly, is_typeddict

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.composition import composed_spec
from agentrt.structured.parts import CaptureField, Part, check_nesting, fields_of
from agentrt.structured.spans import spans_of
from agentrt.structured.types.core_schemas import Reader, reader_of
from agentrt.structured.types.shape import Shape, same_text
from agentrt.structured.types.type_schema import adapter_of, name_of

_ANY = (Any, object)


def composed_shape(part: Part) -> Shape:
    """The shape of a composition: its text.

    Raises:
        ConstraintError: The composition cannot be enforced, or two captures have one name.
    """
    check_nesting(part)
    fields_of(part)
    return Shape(composed_spec(part), same_text, "composition")


def captured_shape(part: Part, spec: ConstraintSpec | None, form: Any) -> Shape:
    """The shape of the captures of a composition.

    Args:
        part: The composition.
        spec: The constraint of its text.
        form: A TypedDict, dataclass or model, whose fields are the captures, or `dict[str, Any]`.

    Raises:
        ConstraintError: The fields are not the captures, or differ in type.
    """
    fields = fields_of(part)
    adapter, checked = adapter_of(form), False
    if form != dict[str, Any]:
        _check_fields(fields, form)
        checked = reader_of(adapter.core_schema) is Reader.CHECKED or _has_bounds(form)
    parse = partial(_values, part, fields, adapter)
    return Shape(spec, parse, name_of(form), checked=checked)


def _values(
    part: Part, fields: dict[str, CaptureField], adapter: TypeAdapter[Any], text: str
) -> Any:
    found: dict[str, Any] = {name: [] for name, field in fields.items() if field.is_list}
    for span in spans_of(part, text):
        value = span.capture.shape.parse(span.text)
        name = span.capture.name
        if fields[name].is_list:
            found[name].append(value)
        else:
            found[name] = value
    return adapter.validate_python(found, by_alias=False, by_name=True)


def _check_fields(fields: dict[str, CaptureField], form: Any) -> None:
    hints, required = _hints(form)
    if missing := required - {name for name, field in fields.items() if not field.is_optional}:
        raise ConstraintError(
            f"{name_of(form)} needs {min(missing)!r}, which not every text has",
            hint=f"Capture it, or give the field a default; captured: {', '.join(fields) or '-'}",
        )
    for name, field in fields.items():
        if name not in hints:
            raise ConstraintError(
                f"{name_of(form)} has no field {name!r}", hint="Give it a field of this name"
            )
        kind, plain = _type_of(field, field.capture.form), _type_of(field, _plain(field))
        if hints[name] not in (*_ANY, kind, plain) and kind not in _ANY:
            raise ConstraintError(
                f"the capture {name!r} is {name_of(kind)}, the field is {name_of(hints[name])}",
                hint="Give the field the type of the capture, or capture the field's type",
            )


def _plain(field: CaptureField) -> Any:
    """The type of a capture without its bounds, which its values are of, too."""
    form = field.capture.form
    return get_args(form)[0] if get_origin(form) is Annotated else form


def _type_of(field: CaptureField, form: Any) -> Any:
    """The type of a capture's value, of the given form."""
    if hasattr(form, "shape"):  # a constraint: text, unless it is of values
        form = str if form.shape.is_text else Any
    return types.GenericAlias(list, (form,)) if field.is_list else form


def _hints(form: Any) -> tuple[dict[str, Any], set[str]]:
    """Types of the fields of a record, and the names of those that must be there.

    Raises:
        ConstraintError: The form is no record.
    """
    if is_typeddict(form):
        hints = get_type_hints(form, include_extras=True)
        optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
        required = set(form.__required_keys__) - optional
    elif isinstance(form, type) and issubclass(form, BaseModel):
        hints = get_type_hints(form, include_extras=True)
        required = {name for name, one in form.model_fields.items() if one.is_required()}
    elif dataclasses.is_dataclass(form):
        hints = get_type_hints(form, include_extras=True)
        required = {one.name for one in dataclasses.fields(form) if _has_no_default(one)}
    else:
        raise ConstraintError(
            f"{name_of(form)} has no fields for captures",
            hint="Give a TypedDict, a dataclass, a model, or dict[str, Any]",
        )
    return {name: _bare(hint) for name, hint in hints.items()}, required


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _bare(hint: Any) -> Any:
    """A field's type without what says whether it must be there."""
    while get_origin(hint) in (NotRequired, Required, ReadOnly):
        hint = get_args(hint)[0]
    return hint


def _has_bounds(form: Any) -> bool:
    """Whether a field has bounds beside its type, by which values of the type may be refused."""
    hints, _ = _hints(form)
    fields = dict(getattr(form, "__pydantic_fields__", {}))
    if not fields and dataclasses.is_dataclass(form):
        fields = {one.name: one.default for one in dataclasses.fields(form)}
    return any(
        isinstance(field, FieldInfo) and field.metadata and get_origin(hints[name]) is not Annotated
        for name, field in fields.items()
    )
