"""Constraints as values of the language, and the shapes of types, each computed once.

The functions import native libraries when the first shape is needed.
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
    """The form of an output that no Python type can express.

    `regex`, `cfg`, `choice` and `json_schema` make one; pass it to `generate` or `each` in place of
    a type. Make it once, as a constant of the module: engines may then compile it ahead.

    Example:
        >>> from agentrt import Constraint, regex
        >>> DATE: Constraint[str] = regex("[0-9]{4}-[0-9]{2}-[0-9]{2}")
        >>> DATE
        <Constraint regex>

    Attributes:
        shape: The constraint, and the parser of its texts.
    """

    __slots__ = ("__weakref__", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        _declared.add(self)

    def __repr__(self) -> str:
        return f"<Constraint {self.shape.name}>"


def declared_constraints() -> tuple[ConstraintSpec, ...]:
    """Constraints that programs have declared and still hold, mostly constants of modules."""
    specs = (constraint.shape.spec for constraint in list(_declared))
    return tuple(dict.fromkeys(spec for spec in specs if spec is not None))


def regex(pattern: str) -> Constraint[str]:
    """Text that the whole pattern matches.

    Use it for codes, dates and other short texts of a fixed form.

    Example:
        >>> from agentrt import chat, program, regex
        >>> DATE = regex("[0-9]{4}-[0-9]{2}-[0-9]{2}")
        >>> @program
        ... async def date() -> str:
        ...     return await chat().user("A date.").generate(DATE)
        >>> date.run()
        '2024-02-29'

    Args:
        pattern: A regular expression without look-around or back-references.

    Raises:
        ConstraintError: The pattern cannot be compiled.
    """
    from agentrt.structured import regex_shape

    return Constraint(regex_shape(pattern))


def cfg(lark: str) -> Constraint[str]:
    r"""Text of a context-free grammar.

    Use it for small languages: expressions, queries, commands.

    Example:
        >>> from agentrt import cfg, chat, program
        >>> SUM = cfg('start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/')
        >>> @program
        ... async def total() -> int:
        ...     text = await chat().user("A sum.").generate(SUM)
        ...     return sum(map(int, text.split("+")))
        >>> total.run()
        3

    Args:
        lark: The grammar in Lark's syntax, with a rule `start`.

    Raises:
        ConstraintError: The grammar cannot be compiled.
    """
    from agentrt.structured import cfg_shape

    return Constraint(cfg_shape(lark))


def json_schema(schema: dict[str, Any], *, check: bool = False) -> Constraint[Any]:
    """JSON that fits a JSON Schema, as plain Python values.

    Use it if the schema is data, such as that of a client; for schemas of your own write a type.

    Example:
        >>> from agentrt import chat, json_schema, program
        >>> RIVERS = json_schema({"type": "array", "items": {"type": "string"}, "maxItems": 2})
        >>> @program
        ... async def rivers() -> list[str]:
        ...     return await chat().user("Name two rivers.").generate(RIVERS)
        >>> rivers.run()
        ['Nile', 'Rhine']

    Args:
        schema: The schema.
        check: Accept keywords that cannot be enforced token by token. The other keywords are
            enforced, and the value is checked against the whole schema at the end; see `retries` of
            `GenOptions`.

    Raises:
        ConstraintError: A keyword cannot be enforced (or checked); the error has its JSON pointer.
    """
    from agentrt.structured import checked_schema_shape, json_schema_shape

    return Constraint(checked_schema_shape(schema) if check else json_schema_shape(schema))


def choice(*options: T) -> Constraint[T]:
    """Exactly one of the values: the model sees each as text, the program gets the value.

    Use it for classification and routing; with `scored=True` all options are compared.

    Example:
        >>> from agentrt import chat, choice, program
        >>> @program
        ... async def month() -> int:
        ...     question = chat().user("Which month has 28 days?")
        ...     name = await question.generate(choice("January", "February"))
        ...     return {"January": 1, "February": 2}[name]
        >>> month.run()
        2

    Args:
        options: Texts, or other values with a JSON form.

    Raises:
        ConstraintError: There is no option, or two options have the same text.
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
_arrays: dict[int, dict[tuple[int, int | None], Shape]] = {}
"""Arrays of given lengths, by the id of the shape for any length, which is kept."""

_kept: dict[tuple[OutputUse, int], tuple[Any, Shape]] = {}


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
        return _array_of(_schema_of(item), *lengths)
    if lengths == (0, None):
        return _once("array", item)
    known = _arrays.setdefault(id(_once("array", item)), {})
    if lengths not in known:
        from agentrt.structured import array_shape

        known[lengths] = array_shape(item, min_items=min_items, max_items=max_items)
    return known[lengths]


def final_for(form: Any) -> Shape:
    """The shape of a final answer, which is JSON even if it is plain text."""
    if isinstance(form, Constraint):
        from agentrt.structured import json_schema_shape

        return json_schema_shape(_schema_of(form))
    return _once("json", form)


def description_for(form: Any, use: OutputUse) -> str:
    """The description of an output for a prompt; "" for free text and grammars.

    Raises:
        ConstraintError: The form is not a type.
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


def content_description(form: Any) -> str:
    """The description of a part of a text, as the end of a sentence."""
    from agentrt.structured.types.description import description_of, schema_description

    shape = shape_for(form)
    if shape.spec is not None and shape.spec.kind == "choice":
        return f"one of: {', '.join(shape.spec.options)}"
    if shape.spec is not None and shape.spec.kind == "regex":
        return f"text that matches {shape.spec.source}"
    if isinstance(form, Constraint):
        words = schema_description(shape.schema) if shape.schema is not None else ""
    else:
        words = description_of(form)
    return f"JSON of this type: {words}" if words else "text"


def _array_of(schema: dict[str, Any], min_items: int, max_items: int | None) -> Shape:
    from agentrt.structured import Shape, json_schema_shape

    one = json_schema_shape(schema)
    array: dict[str, Any] = {"type": "array", "items": schema}
    if min_items:
        array["minItems"] = min_items
    if max_items is not None:
        array["maxItems"] = max_items
    whole = json_schema_shape(array)
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
    """The shape of a form, kept: analysing a type costs far more than a node may."""
    try:
        known = _shapes.get((use, type(form), form))
    except TypeError:  # not hashable: go by identity
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
