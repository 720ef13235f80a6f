"""Constraints as values of the language.

The functions import native libraries when the first shape is needed.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from typing_extensions import TypeForm

from agentrt.base.canonical_json import content
from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import JsonStyle

if TYPE_CHECKING:
    from agentrt.base.constraint_spec import ConstraintSpec
    from agentrt.structured import Part, Shape

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


_declared: weakref.WeakSet[Constraint[Any]] = weakref.WeakSet()


class Constraint(Generic[T_co]):
    """The form of an output that no Python type can express.

    `regex`, `cfg`, `choice`, `json_schema` and `typed` make one; pass it to `generate` or `each` in
    place of a type. Make it once, as a constant of the module: engines may then compile it ahead.

    `+` puts constraints and texts one after the other, `|` allows either of two, `repeat` several
    in a row. The value of a composition is its text; `into` gives the values of its captures.

    Example:
        >>> from agentrt import Constraint, regex
        >>> DATE: Constraint[str] = regex("[0-9]{4}-[0-9]{2}-[0-9]{2}")
        >>> DATE
        <Constraint regex>
        >>> DATE + (" to " + DATE | ", open end")
        <Constraint composition>

    Attributes:
        shape: The constraint, and the parser of its texts.
        part: The same as part of a composition.
    """

    __slots__ = ("__weakref__", "part", "shape")

    def __init__(self, shape: Shape, part: Part | None = None) -> None:
        from agentrt.structured import Leaf

        self.shape = shape
        self.part = part or Leaf(shape.spec, shape.schema)
        _declared.add(self)

    def __add__(self, other: Constraint[Any] | str) -> Constraint[str]:
        return _composed("joined", self, other)

    def __radd__(self, other: str) -> Constraint[str]:
        return _composed("joined", other, self)

    def __or__(self, other: Constraint[Any] | str) -> Constraint[str]:
        return _composed("either", self, other)

    def __ror__(self, other: str) -> Constraint[str]:
        return _composed("either", other, self)

    def repeat(self, fewest: int = 0, most: int | None = None) -> Constraint[str]:
        """The constraint several times in a row.

        Args:
            fewest: Minimum number of times.
            most: Maximum number of times; None sets no limit.

        Raises:
            ConstraintError: The numbers are contradictory, or the result cannot be enforced.
        """
        from agentrt.structured import composed_shape, repeated

        part = repeated(part_of(self), fewest, most)
        return Constraint(composed_shape(part), part)

    def into(self, form: TypeForm[U]) -> Constraint[U]:
        """The values of the captures, as a record.

        Args:
            form: A TypedDict, dataclass or model whose fields are the captures, or
                `dict[str, Any]`.

        Raises:
            ConstraintError: The fields are not the captures, or differ in type.
        """
        from agentrt.structured import captured_shape

        return Constraint(captured_shape(self.part, self.shape.spec, form), self.part)

    def __repr__(self) -> str:
        return f"<Constraint {self.shape.name}>"


def part_of(constraint: Constraint[Any] | str) -> Part:
    """A constraint or a text as part of a composition.

    Raises:
        ConstraintError: The constraint is checked at the end or has late options, which a part
            cannot have.
    """
    if isinstance(constraint, str):
        from agentrt.structured import literal_part

        return literal_part(constraint)
    if constraint.shape.late:
        raise ConstraintError(
            f"{constraint.shape.name} has options that are not known yet",
            hint="Compose constraints of options that are known",
        )
    if constraint.shape.checked:
        raise ConstraintError(
            f"{constraint.shape.name} is checked at the end, which a part cannot be",
            hint="Use generate(...) for it alone",
        )
    return constraint.part


def _composed(
    how: Literal["joined", "either"], one: Constraint[Any] | str, other: Constraint[Any] | str
) -> Constraint[str]:
    from agentrt.structured import Either, Joined, composed_shape

    if not all(isinstance(each, Constraint | str) for each in (one, other)):
        return NotImplemented  # type: ignore[no-any-return]
    kind = Joined if how == "joined" else Either
    part = kind((part_of(one), part_of(other)))
    return Constraint(composed_shape(part), part)


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


def cfg(lark: str, *, json_style: JsonStyle = "compact") -> Constraint[str]:
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
        json_style: Style of `%json {...}` in it; see `GenOptions`.

    Raises:
        ConstraintError: The grammar cannot be compiled.
    """
    from agentrt.structured import cfg_shape

    return Constraint(cfg_shape(lark, json_style))


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
        ConstraintError: There is no option, the options are given as one list, or two options have
            the same text.
    """
    from agentrt.structured import Shape, choice_shape

    if len(options) == 1 and isinstance(options[0], list | tuple | set | frozenset):
        raise ConstraintError(
            "choice(...) has one option, and it is a collection",
            hint="Give the options one by one: choice(*options)",
        )

    by_text = {content(option): option for option in options}
    if len(by_text) != len(options):
        raise ConstraintError("two options of choice(...) have the same text", hint="Drop one")
    plain = choice_shape(*by_text)
    return Constraint(Shape(plain.spec, by_text.__getitem__, "choice"))
