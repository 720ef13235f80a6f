"""The shapes of output types, each computed once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentrt.base.errors import ConstraintError, UsageError
from agentrt.base.json_style import JsonStyle
from agentrt.program.constraints import Constraint

if TYPE_CHECKING:
    from agentrt.structured import Shape


K = TypeVar("K")
V = TypeVar("V")

OutputUse = Literal["alone", "json", "array", "checked"]
_LEAD: dict[OutputUse, str] = {
    "alone": "Answer with JSON of this type:\n",
    "json": "When no tool is needed any more, answer with JSON of this type:\n",
    "array": "Answer with a JSON array. Each item is of this type:\n",
    "checked": "Answer with JSON of this type:\n",
}
_Lengths = tuple[int, int | None]
"""Minimum and maximum number of items; None sets no limit."""

_ANY_LENGTH: _Lengths = (0, None)
MAX_SHAPES = 1024
"""Options and types that a run makes are kept for a while only."""

_shapes: dict[tuple[OutputUse, _Lengths, type, Any], Shape] = {}
_kept: dict[tuple[OutputUse, _Lengths, int], tuple[Any, Shape]] = {}
"""Shapes of forms that are not hashable, by the id of the form, which is kept."""


def shape_for(form: Any) -> Shape:
    """The shape of an output that stands alone, given as a type or a `Constraint`."""
    return form.shape if isinstance(form, Constraint) else _once("alone", form)


def checked_for(form: Any) -> Shape:
    """The shape of an output that is checked at the end, so that not all must be enforced."""
    return form.shape if isinstance(form, Constraint) else _once("checked", form)


def array_for(item: Any, min_items: int = 0, max_items: int | None = None) -> Shape:
    """The shape of a JSON array of such items.

    Raises:
        ConstraintError: The item cannot be enforced, or the lengths are contradictory.
    """
    if min_items < 0 or (max_items is not None and max_items < min_items):
        raise ConstraintError(
            f"min_items={min_items}, max_items={max_items}",
            hint="Give 0 <= min_items <= max_items",
        )
    lengths = (min_items, max_items)
    if isinstance(item, Constraint):
        return _array_of(item, *lengths)
    return _once("array", item, lengths)


def final_for(form: Any) -> Shape:
    """The shape of a final answer, which is JSON even if it is plain text."""
    return _json_of(form) if isinstance(form, Constraint) else _once("json", form)


def styled(form: Any, shape: Shape, style: JsonStyle | None) -> Shape:
    """The shape of a form with its JSON in a style; None leaves its own.

    Raises:
        UsageError: The form is a grammar, whose parts have styles of their own.
    """
    if style is None:
        return shape
    is_grammar = shape.spec is not None and shape.spec.kind == "grammar"
    if isinstance(form, Constraint) and is_grammar and shape.schema is None:
        raise UsageError(
            f"json_style= means nothing for {shape.name}",
            hint="Give it to the parts: cfg(..., json_style=...) or typed(..., json_style=...)",
        )
    from agentrt.structured import in_style

    return in_style(shape, style)


def description_for(form: Any, use: OutputUse) -> str:
    """The description of an output for a prompt; "" for free text and grammars.

    Raises:
        ConstraintError: The form is not a type.
    """
    from agentrt.structured import written_out
    from agentrt.structured.types.description import description_of, schema_description

    shape = checked_for(form) if use == "checked" else shape_for(form)
    if shape.spec is not None and shape.spec.kind == "choice":
        shape = written_out(shape)
    if use in ("alone", "checked") and shape.spec is not None and shape.spec.options:
        return f"Answer with one of: {', '.join(shape.spec.options)}"
    if not isinstance(form, Constraint):
        words = description_of(form)
    elif shape.schema is not None:
        words = schema_description(shape.schema)
    elif shape.spec is not None and shape.spec.kind == "regex":
        return f"Answer with text that matches {shape.spec.source}"
    else:
        return ""
    return _LEAD[use] + words if words else ""


def content_description(form: Any) -> str:
    """The description of a part of a text, as the end of a sentence."""
    from agentrt.structured import written_out
    from agentrt.structured.types.description import description_of, schema_description

    shape = written_out(shape_for(form))
    if shape.spec is not None and shape.spec.kind == "choice":
        return f"one of: {', '.join(shape.spec.options)}"
    if shape.spec is not None and shape.spec.kind == "regex":
        return f"text that matches {shape.spec.source}"
    if isinstance(form, Constraint):
        words = schema_description(shape.schema) if shape.schema is not None else ""
    else:
        words = description_of(form)
    return f"JSON of this type: {words}" if words else "text"


def _array_of(item: Constraint[Any], min_items: int, max_items: int | None) -> Shape:
    from agentrt.structured import in_style, json_schema_shape

    one = _json_of(item)
    array: dict[str, Any] = {"type": "array", "items": _schema_of(item)}
    if min_items:
        array["minItems"] = min_items
    if max_items is not None:
        array["maxItems"] = max_items
    shape = in_style(json_schema_shape(array), _style_of(item))
    return replace(shape, name=f"list[{one.name}]", item=one)


def _json_of(constraint: Constraint[Any]) -> Shape:
    """The shape of a constraint as JSON: its texts as strings, read to its values."""
    from agentrt.structured import in_style, json_schema_shape

    shape, text = json_schema_shape(_schema_of(constraint)), constraint.shape
    shape = in_style(shape, _style_of(constraint))
    if text.schema is not None or text.is_text:
        return shape
    return replace(shape, parse=lambda written: text.parse(shape.parse(written)))


def _style_of(constraint: Constraint[Any]) -> JsonStyle:
    return "compact" if constraint.shape.spec is None else constraint.shape.spec.style


def _schema_of(constraint: Constraint[Any]) -> dict[str, Any]:
    spec = constraint.shape.spec
    if constraint.shape.checked:
        raise ConstraintError(
            "json_schema(..., check=True) can only be an output of its own",
            hint="Use generate(...) for it: what is streamed or called cannot be asked for again",
        )
    if constraint.shape.schema is not None:
        return constraint.shape.schema
    if spec is not None and spec.kind == "regex":
        return {"type": "string", "pattern": f"^(?:{spec.source})$"}
    if spec is not None and spec.kind == "choice":
        return {"type": "string", "enum": list(spec.options)}
    raise ConstraintError(
        f"{constraint.shape.name} has no JSON form, so it cannot be part of JSON",
        hint="Use a type, a regex or a choice here",
    )


def _once(use: OutputUse, form: Any, lengths: _Lengths = _ANY_LENGTH) -> Shape:
    """The shape of a form, kept: analysing a type costs far more than a node may."""
    try:
        known = _shapes.get((use, lengths, type(form), form))
    except TypeError:  # not hashable: go by identity
        held = _kept.get((use, lengths, id(form))) or (form, _make(use, form, lengths))
        if held[1].is_declared:
            _keep(_kept, (use, lengths, id(form)), held)
        return held[1]
    if known is None:
        known = _make(use, form, lengths)
        if known.is_declared:  # else it is the type of one run alone
            _keep(_shapes, (use, lengths, type(form), form), known)
    return known


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    kept[key] = value
    if len(kept) > MAX_SHAPES:
        del kept[next(iter(kept))]


def _make(use: OutputUse, form: Any, lengths: _Lengths) -> Shape:
    from agentrt.structured import array_shape, checked_shape_of, json_shape_of, shape_of

    match use:
        case "alone":
            return shape_of(form)
        case "json":
            return json_shape_of(form)
        case "array":
            return array_shape(form, min_items=lengths[0], max_items=lengths[1])
        case "checked":
            return checked_shape_of(form)
