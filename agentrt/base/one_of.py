"""`OneOf`: a value that must equal one of some options, which may be known at run time only."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentrt.base.canonical_json import dumps
from agentrt.base.errors import ConstraintError, UsageError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, ValidationInfo
    from pydantic_core import CoreSchema

_METADATA = "agentrt_one_of"


@runtime_checkable
class OptionSource(Protocol):
    """Something that gives options later: a node of a run."""

    def held_options(self) -> tuple[Any, ...]:
        """The options.

        Raises:
            NotYetKnown: The node is still pending.
            Exception: The node has failed; this is its own error.
        """
        ...


class OneOf:
    """Holds a value to some options: `Annotated[T, OneOf(options)]` is a T that equals one of them.

    Use it for arguments and figures that stand on data: symbols of a table, or records that tools
    have computed. A record is held as a whole, so a number cannot stand beside another symbol. The
    prompt is not changed: say in it what there is to choose from.

    The options are plain data; nodes, whose results are the options (a result that is a list gives
    each of its items); or, for a parameter of a tool, a function of arguments that are bound to the
    tool, by their names. With nodes that are still pending the generation is declared at once and
    its prompt is computed; the first token waits for the options.

    Example:
        >>> from typing import Annotated
        >>> from agentrt import OneOf, chat, program, tool
        >>> @tool(effects="pure")
        ... def rivers(country: str) -> list[str]:
        ...     return ["Nile", "Rhine"]
        >>> @program
        ... async def river() -> str:
        ...     known = rivers("all")
        ...     return await chat().user("Name a river.").generate(Annotated[str, OneOf(known)])
        >>> river.run()
        'Nile'

    Args:
        source: The options, nodes that give them, or a function of bound arguments.

    Raises:
        ConstraintError: An option has no JSON form.
        UsageError: The options are one text, number or dict.
    """

    __slots__ = ("_choose", "_parts", "_texts")

    def __init__(
        self, source: OptionSource | Callable[..., Iterable[Any]] | Iterable[Any], /
    ) -> None:
        self._choose: Callable[..., Iterable[Any]] | None = None
        self._parts: tuple[Any, ...] = ()
        self._texts: tuple[str, ...] | None = None
        if isinstance(source, str | bytes):
            raise UsageError(
                "OneOf was given one text, whose letters would be the options",
                hint="Give a list of texts",
            )
        if isinstance(source, OptionSource):
            self._parts = (source,)
        elif callable(source):
            self._choose = source
        elif isinstance(source, Mapping) or not isinstance(source, Iterable):
            raise UsageError(
                f"OneOf was given one value of the type {type(source).__name__}",
                hint="Give a list of values",
            )
        else:
            self._parts = tuple(source)
        if self._choose is None and not self.sources:
            self._texts = _texts_of(self._parts)

    @property
    def sources(self) -> tuple[Any, ...]:
        """The nodes among the options."""
        return tuple(part for part in self._parts if isinstance(part, OptionSource))

    @property
    def is_late(self) -> bool:
        """Whether nodes give its options."""
        return self._texts is None and self._choose is None

    @property
    def texts(self) -> tuple[str, ...]:
        """The options as JSON, equal ones once.

        Raises:
            NotYetKnown: A node with options is still pending.
            UsageError: The options come from bound arguments, and it is no parameter of a tool.
            ConstraintError: An option has no JSON form.
            Exception: The error of a node that has failed.
        """
        if self._choose is not None:
            raise UsageError(
                "OneOf was given a function, and there are no bound arguments to call it with",
                hint="Use a function for parameters of tools; elsewhere give the options",
            )
        if self._texts is None:
            self._texts = _texts_of(
                option
                for part in self._parts
                for option in (part.held_options() if isinstance(part, OptionSource) else (part,))
            )
        return self._texts

    def given(self, bound: Mapping[str, Any]) -> OneOf:
        """The same with the options that its function chooses from bound arguments.

        Raises:
            UsageError: An argument of the function is not bound.
        """
        if self._choose is None:
            return self
        names = list(inspect.signature(self._choose).parameters)
        missing = [name for name in names if name not in bound]
        if missing:
            raise UsageError(
                f"the options of a parameter depend on {missing[0]}, which is not bound",
                hint=f"Bind it: `.bind({missing[0]}=...)`",
            )
        return OneOf(self._choose(**{name: bound[name] for name in names}))

    def check(self, value: Any) -> Any:
        """The value, which must equal an option.

        Raises:
            ValueError: The value equals no option.
        """
        text = dumps(value)
        if text not in self.texts and not any(
            _is_equal(json.loads(text), json.loads(option)) for option in self.texts
        ):
            raise ValueError(f"{text[:60]} is none of the options")
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        def checked(value: Any, info: ValidationInfo) -> Any:
            chosen = info.context.get(self, self) if isinstance(info.context, dict) else self
            return value if chosen._choose is not None else chosen.check(value)

        return core_schema.with_info_after_validator_function(
            checked, handler(source), metadata={_METADATA: self}
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OneOf) or self._texts is None or other.is_late:
            return self is other
        return self._texts == other._texts

    def __hash__(self) -> int:
        return id(self) if self._choose is not None or self.sources else hash(self._texts)

    def __repr__(self) -> str:
        if self._texts is None:
            return "OneOf(...)"
        return f"OneOf({len(self._texts)} options)"


_MAX_DIGITS = 400

STAND_IN = "\ue000"
"""First character of a text that stands in for options in a schema: it has no meaning."""


def held_schema(
    schema: Mapping[str, Any], late: dict[str, OneOf], prefix: str
) -> dict[str, Any] | None:
    """The JSON Schema of the options, if a `OneOf` made this core schema, else None.

    A text stands in for options that are not known, which are added to `late` by a name with the
    prefix.
    """
    one_of = (schema.get("metadata") or {}).get(_METADATA)
    if not isinstance(one_of, OneOf):
        return None
    if one_of._texts is not None and not one_of.sources:
        options = [json.loads(text) for text in one_of.texts]
        return {"enum": options} if options else {"not": {}}
    known = (name for name, other in late.items() if other is one_of)
    name = next(known, f"{prefix}:{len(late)}")
    late[name] = one_of
    return {"enum": [STAND_IN + name]}


def _is_equal(value: Any, option: Any) -> bool:
    """Whether a value equals an option in JSON: true is not 1, but 1 is 1.0."""
    if isinstance(value, bool) or isinstance(option, bool):
        return value is option
    match value, option:
        case dict(), dict():
            return value.keys() == option.keys() and all(
                _is_equal(value[key], option[key]) for key in option
            )
        case list(), list():
            return len(value) == len(option) and all(map(_is_equal, value, option))
        case int(), float():  # the float that is read from its digits
            return len(str(value)) <= _MAX_DIGITS and float(str(value)) == option
    return bool(value == option)


def _texts_of(options: Iterable[Any]) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(map(_text, options)))
    except ValueError as wrong:  # pydantic's error of what has no JSON form is one, too
        raise ConstraintError(
            f"an option of OneOf has no JSON form: {wrong}",
            hint="Give texts, finite numbers, dicts, dataclasses or pydantic models",
        ) from wrong


def _text(option: Any) -> str:
    return json.dumps(option, ensure_ascii=False) if type(option) is str else dumps(option)
