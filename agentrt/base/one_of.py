"""`OneOf`: a value that must equal one of some options, which may be known at run time only."""

from __future__ import annotations

import functools
import inspect
import json
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import TypeIs

from agentrt.base.canonical_json import dumps
from agentrt.base.errors import ConstraintError, UsageError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, ValidationInfo
    from pydantic_core import CoreSchema

_METADATA = "agentrt_one_of"


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

    Plain data of more than 64 options is written as JSON when a generation needs it, beside the
    loop of its run. Do not change such options meanwhile.

    Args:
        source: The options, nodes that give them, or a function of bound arguments.

    Raises:
        ConstraintError: An option has no JSON form; of many options, one of the first.
        UsageError: The options are one text, number or dict.
    """

    __slots__ = ("_by_key", "_choose", "_hash", "_is_fixed", "_is_plain", "_known", "_parts",
                 "_sources", "_texts")  # fmt: skip

    def __init__(
        self, source: OptionSource | Callable[..., Iterable[Any]] | Iterable[Any], /
    ) -> None:
        self._choose: Callable[..., Iterable[Any]] | None = None
        self._parts: tuple[Any, ...] = ()
        self._sources: tuple[Any, ...] = ()
        self._texts: tuple[str, ...] | None = None
        self._known: frozenset[str] = frozenset()
        self._by_key: Mapping[Hashable, list[str]] = {}
        self._is_plain = False
        if callable(source) and not is_source(source):
            self._choose = source
        else:
            self._take(source)
        self._is_fixed = self._choose is None and not self._sources
        self._hash: int | None = None
        if self._is_fixed and not self.is_large:
            self._texts = _texts_of(self._parts)

    def _take(self, source: OptionSource | Iterable[Any]) -> None:
        """Take options and nodes; thousands are looked at by their kinds alone."""
        self._parts = _parts_of(source)
        kinds = set(map(type, self._parts))
        self._is_plain = kinds <= _PLAIN_KINDS
        if any(map(_gives_options, kinds)):
            self._sources = tuple(filter(is_source, self._parts))

    @property
    def sources(self) -> tuple[Any, ...]:
        """The nodes among the options."""
        return self._sources

    @property
    def is_fixed(self) -> bool:
        """Whether its options were known when it was made."""
        return self._is_fixed

    @property
    def is_large(self) -> bool:
        """Whether its options, known when it was made, are too many to be written on a loop."""
        return self._is_fixed and len(self._parts) > LARGE_OPTIONS

    def first(self, count: int) -> OneOf:
        """The same with the first of its options alone, which were known when it was made."""
        return OneOf(self._parts[:count])

    @property
    def count(self) -> int:
        """Number of the options, equal ones included.

        Raises:
            NotYetKnown: A node with options is still pending.
            Exception: The error of a node that has failed.
        """
        if not self._sources:
            return len(self._parts)
        return sum([len(_options_in(part)) for part in self._parts])

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
            self._texts = _texts_of(option for part in self._parts for option in _options_in(part))
        return self._texts

    def given(self, bound: Mapping[str, Any]) -> OneOf:
        """The same with the options that its function chooses from bound arguments.

        They are written as JSON when that is first needed.

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
        chosen = OneOf(())
        chosen._take(self._choose(**{name: bound[name] for name in names}))
        chosen._texts, chosen._is_fixed, chosen._hash = None, False, None
        return chosen

    def prepare(self) -> None:
        """Work out the texts, with which values are compared."""
        if not self._known:
            self._known = frozenset(self.texts)

    def check(self, value: Any) -> Any:
        """The value, which must equal an option.

        Raises:
            ValueError: The value equals no option.
        """
        self.prepare()
        text = dumps(value)
        if text in self._known:
            return value
        plain = json.loads(text)
        alike = self._alike().get(equality_key(plain), ())
        if not any(_is_equal(plain, json.loads(one)) for one in alike):
            raise ValueError(f"{text[:60]} is none of the options")
        return value

    def _alike(self) -> Mapping[Hashable, list[str]]:
        """The texts by the key that equal values share.

        Only a value that is written otherwise than all options needs them: a place that reads its
        options so asks when they are read, beside the loop.
        """
        if not self._by_key:
            found: dict[Hashable, list[str]] = {}
            for text in self.texts:
                found.setdefault(equality_key(json.loads(text)), []).append(text)
            self._by_key = found
        return self._by_key

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(
            self._checked, handler(source), metadata={_METADATA: self}
        )

    def _checked(self, value: Any, info: ValidationInfo) -> Any:
        chosen = info.context.get(self, self) if isinstance(info.context, dict) else self
        return value if chosen._choose is not None else chosen.check(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OneOf) or not self._is_fixed or not other._is_fixed:
            return self is other
        if not self.is_large and not other.is_large:
            return self._texts == other._texts
        if self is other or not (self._is_plain and other._is_plain):
            return self is other
        return self._parts == other._parts and _are_alike(self._parts, other._parts)

    def __hash__(self) -> int:
        if self._hash is None:  # each check of a value asks for it, and a tuple keeps none
            self._hash = hash(self._content) if self._is_fixed else id(self)
        return self._hash

    @property
    def _content(self) -> Hashable:
        """The content by which two are equal."""
        if not self.is_large:
            return self._texts
        return self._parts if self._is_plain else id(self)

    def __repr__(self) -> str:
        return f"OneOf({len(self._parts)} options)" if self._is_fixed else "OneOf(...)"


LARGE_OPTIONS = 64
"""Number of options above which they are written in a worker thread, not on a loop."""

_PLAIN_KINDS = frozenset({str, int, bool, type(None)})
"""Kinds of options that never change, and of which equal ones have equal texts."""

_MAX_DIGITS = 400


def is_source(part: object) -> TypeIs[OptionSource]:
    """Whether an option is given later."""
    kind: Any = type(part)
    return _gives_options(kind)


@functools.lru_cache(maxsize=256)
def _gives_options(kind: type[Any]) -> bool:
    """Whether options are given later by such a value: a check of the protocol takes 50 us."""
    return hasattr(kind, "held_options")


def _are_alike(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether values are of the same kinds: in Python true equals 1."""
    return all(map(operator.is_, map(type, some), map(type, others)))


def one_of_in(schema: Mapping[str, Any]) -> OneOf | None:
    """The `OneOf` that made a core schema of pydantic; None if another type did."""
    found = (schema.get("metadata") or {}).get(_METADATA)
    return found if isinstance(found, OneOf) else None


def _parts_of(source: OptionSource | Iterable[Any]) -> tuple[Any, ...]:
    """Options and nodes.

    Raises:
        UsageError: They are one text, number or dict.
    """
    if is_source(source):
        return (source,)
    if isinstance(source, str | bytes):
        raise UsageError(
            "OneOf was given one text, whose letters would be the options",
            hint="Give a list of texts",
        )
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise UsageError(
            f"OneOf was given one value of the type {type(source).__name__}",
            hint="Give a list of values",
        )
    return tuple(source)


def _options_in(part: Any) -> tuple[Any, ...]:
    return part.held_options() if is_source(part) else (part,)


def equality_key(value: Any) -> Hashable:
    """A key that equal values share, however their numbers are written; others seldom do."""
    match value:
        case bool() | None:
            return (value,)
        case dict():
            return frozenset((name, equality_key(one)) for name, one in value.items())
        case list():
            return tuple(map(equality_key, value))
        case int() | float() if len(text := str(value)) <= _MAX_DIGITS:
            return float(text)
    return str(value)


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
    return _quote(option) if type(option) is str else dumps(option)


_quote = json.JSONEncoder(ensure_ascii=False).encode
