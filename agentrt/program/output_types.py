"""Constraints as values of the language, and the shapes of types, each worked out once.

What works them out brings native libraries along and is imported when the first one is needed.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from agentrt.base.canonical_json import content
from agentrt.base.errors import ConstraintError

if TYPE_CHECKING:
    from agentrt.base.constraint_spec import ConstraintSpec
    from agentrt.structured import Shape

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


_declared: weakref.WeakSet[Constraint[Any]] = weakref.WeakSet()


class Constraint(Generic[T_co]):
    """What an output must look like, where no Python type says it.

    Attributes:
        shape: The constraint and how its text is read.
    """

    __slots__ = ("__weakref__", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        _declared.add(self)

    def __repr__(self) -> str:
        return f"<Constraint {self.shape.name}>"


def declared_constraints() -> tuple[ConstraintSpec, ...]:
    """What programs have declared so far and still hold: constants of their modules, mostly."""
    specs = (constraint.shape.spec for constraint in list(_declared))
    return tuple(dict.fromkeys(spec for spec in specs if spec is not None))


def regex(pattern: str) -> Constraint[str]:
    """Text that the whole pattern matches.

    Raises:
        ConstraintError: The pattern is not understood.
    """
    from agentrt.structured import regex_shape

    return Constraint(regex_shape(pattern))


def cfg(lark: str) -> Constraint[str]:
    """Text of a context-free grammar, in Lark's syntax with a rule `start`.

    Raises:
        ConstraintError: The grammar is not understood.
    """
    from agentrt.structured import cfg_shape

    return Constraint(cfg_shape(lark))


def json_schema(schema: dict[str, Any], *, check: bool = False) -> Constraint[Any]:
    """JSON that fits a JSON Schema, as plain Python values.

    Args:
        schema: The schema.
        check: Takes keywords, too, that cannot be enforced token by token: the rest is, and the
            value is checked against the whole schema. See `retries` of `GenOptions`.

    Raises:
        ConstraintError: With the pointer and keyword that cannot be enforced (or checked).
    """
    from agentrt.structured import checked_schema_shape, json_schema_shape

    return Constraint(checked_schema_shape(schema) if check else json_schema_shape(schema))


def choice(*options: T) -> Constraint[T]:
    """Exactly one of the values; the model sees each as text, the program gets the value.

    Raises:
        ConstraintError: There is none, or two of them read the same.
    """
    from agentrt.structured import Shape, choice_shape

    by_text = {content(option): option for option in options}
    if len(by_text) != len(options):
        raise ConstraintError("two options of choice(...) have the same text", hint="Drop one")
    plain = choice_shape(*by_text)
    return Constraint(Shape(plain.spec, by_text.__getitem__, "choice"))


OutputUse = Literal["alone", "json", "array", "checked"]
_LEAD: dict[OutputUse, str] = {
    "alone": "Answer with JSON of this type:\n",
    "json": "When no tool is needed any more, answer with JSON of this type:\n",
    "array": "Answer with a JSON array. Each item is of this type:\n",
    "checked": "Answer with JSON of this type:\n",
}
_shapes: dict[tuple[OutputUse, type, Any], Shape] = {}
_kept: dict[tuple[OutputUse, int], tuple[Any, Shape]] = {}


def shape_for(form: Any) -> Shape:
    """The shape of an output that stands alone: of a type form or a `Constraint`."""
    return form.shape if isinstance(form, Constraint) else _once("alone", form)


def checked_for(form: Any) -> Shape:
    """The same, where the value is checked in the end: it may say more than can be enforced."""
    return form.shape if isinstance(form, Constraint) else _once("checked", form)


def array_for(item: Any) -> Shape:
    """The shape of a JSON array of such items."""
    if isinstance(item, Constraint):
        return _array_of(_schema_of(item))
    return _once("array", item)


def final_for(form: Any) -> Shape:
    """The shape of a final answer, as JSON also where it is plain text."""
    if isinstance(form, Constraint):
        from agentrt.structured import json_schema_shape

        return json_schema_shape(_schema_of(form))
    return _once("json", form)


def description_for(form: Any, use: OutputUse) -> str:
    """What a prompt tells of such an output; "" of free text and of grammars.

    Raises:
        ConstraintError: The form is no type.
    """
    from agentrt.structured.types.description import description_of, schema_description

    shape = checked_for(form) if use == "checked" else shape_for(form)
    if use in ("alone", "checked") and shape.spec is not None and shape.spec.kind == "choice":
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


def _array_of(schema: dict[str, Any]) -> Shape:
    from agentrt.structured import Shape, json_schema_shape

    one = json_schema_shape(schema)
    whole = json_schema_shape({"type": "array", "items": schema})
    return Shape(whole.spec, whole.parse, f"list[{one.name}]", whole.schema, one)


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


def _once(use: OutputUse, form: Any) -> Shape:
    """The shape of `form` there, remembered: looking at a type costs far more than a node may."""
    try:
        known = _shapes.get((use, type(form), form))
    except TypeError:  # not hashable: remember the object itself
        held = _kept.get((use, id(form)))
        if held is None:
            held = _kept[use, id(form)] = (form, _make(use, form))
        return held[1]
    if known is None:
        known = _shapes[use, type(form), form] = _make(use, form)
    return known


def _make(use: OutputUse, form: Any) -> Shape:
    from agentrt.structured import array_shape, checked_shape_of, json_shape_of, shape_of

    match use:
        case "alone":
            return shape_of(form)
        case "json":
            return json_shape_of(form)
        case "array":
            return array_shape(form)
        case "checked":
            return checked_shape_of(form)
