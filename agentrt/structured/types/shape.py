"""Shape of an output: from a Python type to a constraint, and from the text back to a value.

A value that stands alone is written bare: `str` is free text, a `Literal` or `Enum` of strings is
its text, a constrained string matches its pattern, numbers are digits. Everything else is compact
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NewType, get_args, get_origin

from pydantic import SecretStr, TypeAdapter
from typing_extensions import TypeAliasType

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.held_place import FEW, HeldPlace, texts_by_hole
from agentrt.base.json_style import JsonStyle
from agentrt.base.record import record
from agentrt.structured.json_schema.declaration import complaint_about, json_spec, normal_form
from agentrt.structured.json_schema.exact_check import read_checked
from agentrt.structured.json_schema.json_grammar import check_style
from agentrt.structured.json_schema.limits import check_choice, check_size
from agentrt.structured.json_schema.native import lark_regex
from agentrt.structured.json_schema.regex_text import anywhere
from agentrt.structured.json_schema.structure import reason_of
from agentrt.structured.lark_json import with_styled_json
from agentrt.structured.types.core_schemas import Reader, author_of, reader_of
from agentrt.structured.types.json_reader import JsonReader, PlainReader
from agentrt.structured.types.late_options import with_holes, with_options
from agentrt.structured.types.trial import check_reading
from agentrt.structured.types.type_schema import adapter_of, name_of, schema_of


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The constraint of an output and the parser of its text.

    Attributes:
        spec: The constraint; None leaves the text free.
        parse: Converts the whole text to the value. Raises ValueError (including pydantic's
            ValidationError) if the text is not of this shape.
        name: Name for people: `list[Report]`, `regex`.
        schema: JSON Schema of the value; None if the text is not JSON.
        item: Shape of one item, for an array.
        checked: Whether `parse` may refuse text that the constraint allows, with a reason.
        late: Options that are many, or not known yet, by the names of the holes of `spec`.
    """

    spec: ConstraintSpec | None
    parse: Callable[[str], Any]
    name: str
    schema: dict[str, Any] | None = None
    item: Shape | None = None
    checked: bool = False
    late: Mapping[str, HeldPlace] = field(default_factory=dict)

    @property
    def is_declared(self) -> bool:
        """Whether all of its options are declared, if only to be filled in later."""
        return all(place.one_of.is_fixed for place in self.late.values())

    @property
    def is_text(self) -> bool:
        """Whether the value is text."""
        if self.spec is not None and self.spec.kind == "choice":
            return all(isinstance(self.parse(option), str) for option in self.spec.options)
        return gives_text(self.parse)


def shape_of(form: Any) -> Shape:
    """The shape of a type's values, standing alone.

    Raises:
        ConstraintError: The type cannot be enforced, or not all that its grammar allows is read;
            names JSON pointer and keyword.
    """
    if form is str:
        return Shape(None, same_text, "str")
    if isinstance(form, Shape):
        return form
    adapter = adapter_of(form)
    return _read(enforced_shape(form, adapter), adapter)


def enforced_shape(form: Any, adapter: TypeAdapter[Any]) -> Shape:
    """The shape of a type's values, standing alone, of which its reader may refuse some.

    Raises:
        ConstraintError: The type cannot be enforced; names JSON pointer and keyword.
    """
    texts = _bare_texts(form)
    if texts is not None:
        return _choice(texts, adapter.validate_python, name_of(form))
    late: dict[str, HeldPlace] = {}
    schema = schema_of(form, adapter, late)
    if _is_bare_text(form) and _is_text(schema):
        return _text(form, schema, adapter)
    if _is_bare_text(form) and schema.keys() == {"enum"}:
        if not late:
            return _choice(tuple(schema["enum"]), adapter.validate_python, name_of(form))
        spec = ConstraintSpec("choice", holes=tuple(late))
        return Shape(spec, adapter.validate_python, name_of(form), late=late)
    return _json(schema, adapter, name_of(form), late)


def json_shape_of(form: Any) -> Shape:
    """The shape of a type's values as JSON, strings in quotes: for parts of a larger text.

    Raises:
        ConstraintError: The type cannot be enforced; names JSON pointer and keyword.
    """
    adapter, late = adapter_of(form), dict[str, HeldPlace]()
    shape = _json(schema_of(form, adapter, late), adapter, name_of(form), late, is_part=True)
    return _read(shape, adapter)


def array_shape(item: Any, *, min_items: int = 0, max_items: int | None = None) -> Shape:
    """A JSON array of `item` values; `shape.item` parses each by itself.

    Raises:
        ConstraintError: The item's type cannot be enforced.
    """
    one = json_shape_of(item)
    adapter, late = adapter_of(list[item]), dict[str, HeldPlace]()
    schema = schema_of(list[item], adapter, late)
    if min_items:
        schema["minItems"] = min_items
    if max_items is not None:
        schema["maxItems"] = max_items
    return replace(_json(schema, adapter, f"list[{one.name}]", late), item=one)


def regex_shape(pattern: str) -> Shape:
    """Text that matches `pattern` as a whole, in the syntax of Rust's `regex`.

    Raises:
        ConstraintError: The pattern is invalid or too large.
    """
    spec = ConstraintSpec("regex", source=pattern)
    complaint = complaint_about(spec)
    if complaint:
        raise ConstraintError(
            f"regex {pattern!r}: {reason_of(complaint)}",
            hint="Use a regex without look-around and back-references",
        )
    return Shape(spec, same_text, "regex")


def choice_shape(*options: str) -> Shape:
    """Exactly one of the options.

    Raises:
        ConstraintError: There is no option, or one is not text.
    """
    return _choice(options, same_text, "choice")


def cfg_shape(lark: str, style: JsonStyle = "compact") -> Shape:
    """Text of a context-free grammar in llguidance's dialect of Lark, from the rule `start`.

    Args:
        lark: The grammar.
        style: Style of the JSON in it.

    Raises:
        ConstraintError: The grammar is invalid or too large.
    """
    check_size(lark, "grammar")
    spec = ConstraintSpec("grammar", source=with_styled_json(lark, style))
    complaint = complaint_about(spec)
    if complaint:
        raise ConstraintError(
            f"grammar: {' '.join(complaint.split())[:300]}",
            hint="The syntax is Lark's, with a rule named start",
        )
    return Shape(spec, same_text, "cfg")


def json_schema_shape(schema: dict[str, Any]) -> Shape:
    """JSON that fits a schema, parsed to plain Python values.

    Raises:
        ConstraintError: The schema cannot be enforced; names JSON pointer and keyword.
    """
    plain = normal_form(schema)
    return Shape(json_spec(plain), PlainReader(read_checked(schema)), "json_schema", plain)


@lru_cache(maxsize=1024)
def in_style(shape: Shape, style: JsonStyle) -> Shape:
    """A shape with its JSON in a style; one of other text as it is.

    Raises:
        ConstraintError: The style is `indented`, and the JSON has no such form.
    """
    spec = shape.spec
    if spec is None or spec.kind != "json":
        return shape
    check_style(json.loads(spec.filled(dict.fromkeys(spec.holes, ("null",))).source), style)
    return replace(shape, spec=replace(spec, style=style))


def written_out(shape: Shape) -> Shape:
    """A shape with its declared options written out, as part of a larger text; others as they are.

    Raises:
        ConstraintError: An option has no JSON form, or is none of its type.
    """
    if shape.spec is None or not shape.late or not shape.is_declared:
        return shape
    texts = texts_by_hole(shape.late)
    if shape.spec.kind == "choice":
        return replace(shape, spec=shape.spec.filled(texts), late={})
    schema = with_options(shape.schema, texts)
    spec = replace(shape.spec, source=canonical_json.dumps(schema), holes=())
    return replace(shape, spec=spec, schema=schema, late={})


def _read(shape: Shape, adapter: TypeAdapter[Any]) -> Shape:
    """The shape, if all texts that it allows are read."""
    reader = reader_of(adapter.core_schema, reads_options=bool(shape.late))
    if reader is Reader.CHECKED:
        raise ConstraintError(
            f"{shape.name} calls {author_of(adapter.core_schema)}, "
            "which may refuse what its grammar allows",
            hint="Give check=True, so that a refused answer is given again",
        )
    if reader is Reader.TRIED and shape.is_declared:  # no text is known before its options
        _try(shape, adapter)
    return shape


def _try(shape: Shape, adapter: TypeAdapter[Any]) -> None:
    """Try the reader of a shape; of many options, with the first."""
    if shape.spec is None or not shape.late:
        check_reading(shape.spec, shape.parse, shape.name)
        return
    few = {name: place.first(FEW) for name, place in shape.late.items()}
    texts = texts_by_hole(few)
    if not all(texts.values()):  # bounds leave none of them
        return
    chosen = {place.one_of: few[name].one_of for name, place in shape.late.items()}
    read = adapter.validate_python if shape.spec.kind == "choice" else adapter.validate_json
    check_reading(shape.spec.filled(texts), partial(read, context=chosen), shape.name)


def _json(
    schema: dict[str, Any],
    adapter: TypeAdapter[Any],
    name: str,
    late: Mapping[str, HeldPlace],
    *,
    is_part: bool = False,
) -> Shape:
    spec = with_holes(json_spec(schema, is_part=is_part), late)
    return Shape(spec, JsonReader(adapter), name, schema, late=late)


def _choice(options: tuple[str, ...], parse: Callable[[str], Any], name: str) -> Shape:
    check_choice(options, name)
    distinct = tuple(dict.fromkeys(options))
    return Shape(ConstraintSpec("choice", options=distinct), parse, name)


def _bare_texts(form: Any) -> tuple[str, ...] | None:
    """The texts of a `Literal` or `Enum` of strings, else None."""
    values: tuple[Any, ...] = ()
    form = _unwrapped(form)
    if get_origin(form) is Literal:
        values = get_args(form)
    elif isinstance(form, type) and issubclass(form, Enum):
        values = tuple(member.value for member in form)
    if values and all(type(value) is str for value in values):
        return values
    return None


def _is_bare_text(form: Any) -> bool:
    """Whether a form is `str` with only bounds and names around it."""
    kind = _unwrapped(form)
    return isinstance(kind, type) and issubclass(kind, str | bytes | SecretStr)


def _unwrapped(form: Any) -> Any:
    """The type inside NewType, Annotated and named aliases."""
    while True:
        if get_origin(form) is Annotated:
            form = get_args(form)[0]
        elif isinstance(form, NewType):
            form = form.__supertype__
        elif isinstance(form, TypeAliasType):
            form = form.__value__
        else:
            return form


def _text(form: Any, schema: dict[str, Any], adapter: TypeAdapter[Any]) -> Shape:
    """Bare text within patterns and lengths; free without any."""
    json_spec(schema, is_part=True)
    parts = [schema, *schema.get("allOf", ())]
    terms = [lark_regex(anywhere(part["pattern"])) for part in parts if "pattern" in part]
    if schema.keys() & {"minLength", "maxLength"}:
        most = schema.get("maxLength", "")
        terms.append(lark_regex(f"(?s:.){{{schema.get('minLength', 0)},{most}}}"))

    read = TextReader(adapter, issubclass(_unwrapped(form), str))
    if not terms:
        return Shape(None, read, name_of(form))
    lark = f"start: TEXT\nTEXT: {' & '.join(terms)}\n"
    return Shape(ConstraintSpec("grammar", source=lark), read, name_of(form))


def _is_text(schema: dict[str, Any]) -> bool:
    """Whether a schema says no more than patterns and lengths of a string."""
    terms = schema.get("allOf", ())
    patterns = all(isinstance(term, dict) and term.keys() == {"pattern"} for term in terms)
    return schema.get("type") == "string" and patterns and not schema.keys() & {"enum", "const"}


@record
class TextReader:
    """The parser of text within bounds, of which a type may make something else.

    Attributes:
        adapter: Adapter of the type.
        gives_text: Whether it gives a `str`, and no bytes or secrets.
    """

    adapter: TypeAdapter[Any]
    gives_text: bool

    def __call__(self, text: str) -> Any:
        """The value of a text."""
        return self.adapter.validate_json(canonical_json.dumps(text))


def gives_text(parse: Callable[[str], Any]) -> bool:
    """Whether a parser gives text."""
    return parse is same_text or (isinstance(parse, TextReader) and parse.gives_text)


def same_text(text: str) -> str:
    """The parser of text."""
    return text
