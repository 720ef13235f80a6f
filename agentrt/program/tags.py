"""Tags in free text: typed parts that a model writes where it wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from typing_extensions import TypeForm

from agentrt.base.errors import ConstraintError
from agentrt.base.record import record
from agentrt.program.constraints import Constraint
from agentrt.program.output_types import content_description, shape_for

if TYPE_CHECKING:
    from agentrt.base.constraint_spec import ConstraintSpec
    from agentrt.structured import TagShape

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


@record
class Tagged(Generic[T_co]):
    """A typed part of free text, as `chat.tagged(...)` gives it.

    Example:
        >>> from agentrt import Tagged
        >>> match Tagged("sum", 3):
        ...     case Tagged("sum", value):
        ...         print(value)
        3

    Attributes:
        name: Name of its tag.
        value: The value.
    """

    name: str
    value: T_co


class Tags(Generic[T_co]):
    """One or more kinds of tags; `tag` makes one, `|` joins them.

    Make them once, as constants of the module.

    Example:
        >>> from agentrt import tag
        >>> tag("sum", int) | tag("place", str)
        <Tags sum | place>

    Attributes:
        shapes: The kinds of tags.
        forms: Type or constraint of each.
    """

    __slots__ = ("_specs", "forms", "shapes")

    def __init__(self, shapes: tuple[TagShape, ...], forms: tuple[Any, ...]) -> None:
        self.shapes = shapes
        self.forms = forms
        self._specs: dict[tuple[int, int | None], ConstraintSpec] = {}
        self.spec(0, None)

    def __or__(self, other: Tags[U]) -> Tags[T_co | U]:
        return Tags(self.shapes + other.shapes, self.forms + other.forms)

    def __repr__(self) -> str:
        return f"<Tags {' | '.join(one.name for one in self.shapes)}>"

    def spec(self, min_tags: int, max_tags: int | None) -> ConstraintSpec:
        """The constraint of a text with so many tags.

        Raises:
            ConstraintError: The tags are unclear beside each other, or the counts contradictory.
        """
        from agentrt.structured import tags_spec

        found = self._specs.get((min_tags, max_tags))
        if found is None:
            found = self._specs[min_tags, max_tags] = tags_spec(self.shapes, min_tags, max_tags)
        return found

    def description(self) -> str:
        """The description of the tags for a prompt."""
        lines = ["Your answer may hold these tags:"]
        for shape, form in zip(self.shapes, self.forms, strict=True):
            lines.append(f"{shape.begin}...{shape.end} with {content_description(form)}")
        return "\n".join(lines)


@overload
def tag(
    name: str, form: Constraint[T], *, begin: str = "", end: str | None = None, trigger: str = ""
) -> Tags[T]: ...
@overload
def tag(
    name: str, form: TypeForm[T], *, begin: str = "", end: str | None = None, trigger: str = ""
) -> Tags[T]: ...
def tag(
    name: str, form: Any, *, begin: str = "", end: str | None = None, trigger: str = ""
) -> Tags[Any]:
    """A kind of tag for `chat.tagged(...)`, by default `<name>...</name>`.

    Use tags for free text in which a model may place typed parts: calculations, citations, plots.

    Example:
        >>> from agentrt import chat, program, tag
        >>> SUM = tag("sum", int)
        >>> @program
        ... async def count() -> list[object]:
        ...     return await chat().user("How many legs have two spiders?").tagged(SUM)
        >>> count.run()
        ['They have ', Tagged(name='sum', value=16), ' legs.']

    Args:
        name: Name of the tag.
        form: Any type, or a constraint such as `regex(...)`.
        begin: Text that begins the tag.
        end: Text that ends it; "" if its content is JSON in brackets.
        trigger: Beginning of `begin`, shared by several tags: wherever the model writes it, one of
            them follows. By default it is all of `begin`.

    Raises:
        ConstraintError: The form cannot be enforced, or the end of the tag would not be clear.
    """
    from agentrt.structured import TagShape, written_out

    content = written_out(shape_for(form))
    if content.late:
        raise ConstraintError(
            f"tag {name}: its content has options that are not known yet",
            hint="Use generate(...) for it, or a type whose options are known",
        )
    if content.checked:
        raise ConstraintError(
            f"tag {name}: the content of a tag cannot be checked at the end",
            hint="Use generate(...) for it: what is streamed cannot be asked for again",
        )
    begin = begin or f"<{name}>"
    end = f"</{name}>" if end is None else end
    return Tags((TagShape(name, begin, end, trigger or begin, content),), (form,))
