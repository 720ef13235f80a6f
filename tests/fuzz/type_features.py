# mypy: disable-error-code="misc,type-arg,valid-type,call-overload,arg-type,typeddict-item"
# mypy: disable-error-code="attr-defined,no-any-return,maybe-unrecognized-str-typeform"
"""Features of types: each core-schema kind, constraint and standard-library type, at least once.

A feature makes a type around another one, or beside it. All types are made anew, from dice.
"""

import collections
import dataclasses
import datetime as dt
import decimal
import fractions
import ipaddress
import pathlib
import re
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from types import GenericAlias
from typing import Annotated, Any, Literal, NewType, Optional, Union

import annotated_types as at
import pydantic
import typing_extensions as te
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema as cs

from tests.fuzz.sample_classes import (
    Bit,
    Box,
    Cat,
    Dog,
    Level,
    Mixed,
    Node,
    Pairs,
    Percent,
    Point,
    Right,
    Row,
    Side,
    Tone,
    Tree,
    refuse_some,
    refuse_wrapped,
    tag_of,
)

Make = Callable[[Random, Any], Any]
"""A type from another one."""


def of(kind: Any, *arguments: Any) -> Any:
    return GenericAlias(kind, arguments)


def fixed(*forms: Any) -> Make:
    """One of some types, which holds no other."""
    return lambda dice, _: dice.choice(forms)


def around(*kinds: Any) -> Make:
    """A generic type of the inner one."""
    return lambda dice, inner: dice.choice(kinds)[inner]


def noted(*pairs: Any) -> Make:
    """One of some types with one of its constraints."""
    return lambda dice, _: (lambda form, notes: Annotated[form, dice.choice(notes)])(
        *dice.choice(pairs)
    )


def model(dice: Random, inner: Any, **config: Any) -> Any:
    first: Any = dice.choice((str, int, bool, dt.date))
    fields: Any = {"first": (first, ...), "inner": (inner, ...), "last": (list[int] | None, None)}
    return pydantic.create_model("Made", __config__=ConfigDict(**config) or None, **fields)


def aliased(dice: Random, inner: Any) -> Any:
    field = dice.choice(
        (
            Field(alias="Inner Name"),
            Field(validation_alias="other"),
            Field(validation_alias=pydantic.AliasChoices("one", "two")),
            Field(serialization_alias="out"),
        )
    )
    return pydantic.create_model("Aliased", inner=(inner, field), rest=(int, 0))


def alias_path(dice: Random, inner: Any) -> Any:
    path = dice.choice(
        (
            pydantic.AliasPath("data", "value"),
            pydantic.AliasPath("rows", 0),
            pydantic.AliasChoices(pydantic.AliasPath("a", "b"), "plain"),
            pydantic.AliasPath("rows", 1, "deep"),
        )
    )
    return pydantic.create_model("ByPath", inner=(inner, Field(validation_alias=path)))


def typed_dict(dice: Random, inner: Any) -> Any:
    told: Any = te.TypedDict
    match dice.randrange(4):
        case 0:
            return told("Told", {"inner": inner, "more": te.NotRequired[int]})
        case 1:
            return told("Told", {"inner": te.Required[inner], "more": int}, total=False)
        case 2:
            made = told("Told", {"inner": inner})
            made.__pydantic_config__ = ConfigDict(extra=dice.choice(("allow", "forbid")))
            return made
    return told("Told", {"inner": inner, "fixed": Literal["x"]})


def dataclass(dice: Random, inner: Any) -> Any:
    fields: Any = [
        ("inner", inner),
        ("count", int, dataclasses.field(default=3)),
        ("names", list[str], dataclasses.field(default_factory=list)),
    ]
    made = dataclasses.make_dataclass("Data", fields, slots=dice.random() < 0.5)
    return pydantic.dataclasses.dataclass(made) if dice.random() < 0.3 else made


def union(dice: Random, inner: Any) -> Any:
    other = dice.choice((int, str, Point, list[int], dt.date, Side, dict[str, bool]))
    mode = dice.choice(("smart", "left_to_right"))
    return Annotated[inner | other, Field(union_mode=mode)]


def nullable(dice: Random, inner: Any) -> Any:
    try:
        return Optional[inner]  # noqa: UP045 (some types have no `|`)
    except TypeError:  # a note that cannot be hashed
        return pydantic.create_model("Nullable", inner=(list[inner] | None, None))


def tagged(dice: Random, inner: Any) -> Any:
    other = pydantic.create_model("Other", kind=(Literal["a", "b"], ...), inner=(inner, ...))
    return Annotated[Cat | Dog | other, Field(discriminator="kind")]


def called_tag(dice: Random, inner: Any) -> Any:
    return Annotated[
        Annotated[str, pydantic.Tag("text")] | Annotated[list[inner], pydantic.Tag("other")],
        pydantic.Discriminator(tag_of),
    ]


def custom(build: Callable[[Any], Any]) -> Make:
    """A type with a core schema of its own around the inner type's."""

    def make(dice: Random, inner: Any) -> Any:
        return Annotated[inner, pydantic.GetPydanticSchema(lambda form, to: build(to(form)))]

    return make


def validated(dice: Random, inner: Any) -> Any:
    class Checked(BaseModel):
        inner: Any
        count: int

        @pydantic.field_validator("count")
        @classmethod
        def small(cls, count: int) -> int:
            if count > 9:
                raise ValueError("too many")
            return count

    class After(BaseModel):
        numbers: list[int]

        @pydantic.model_validator(mode="after")
        def few(self) -> te.Self:
            return refuse_some(self)

    class Before(BaseModel):
        numbers: list[int]

        @pydantic.model_validator(mode="before")
        @classmethod
        def few(cls, found: Any) -> Any:
            return refuse_some(found)

    return dice.choice((Checked, After, Before, posted(inner)))


def posted(inner: Any) -> Any:
    def post(self: Any) -> None:
        refuse_some(self)

    made = dataclasses.make_dataclass("Posted", [("inner", inner), ("count", int)])
    made.__post_init__ = post
    return made


def computed(dice: Random, inner: Any) -> Any:
    base: Any = pydantic.create_model("Base", inner=(inner, ...), count=(int, 1))

    class Computed(base):
        _seen: int = pydantic.PrivateAttr(0)

        @pydantic.computed_field
        def twice(self) -> int:
            return self.count * 2

        @pydantic.field_serializer("count")
        def written(self, count: int) -> str:
            return str(count)

    return Computed


def optional_missing(dice: Random, inner: Any) -> Any:
    inner = Union[inner, pydantic.MISSING]  # noqa: UP007 (some types have no `|`)
    return pydantic.create_model("Partial", inner=(inner, pydantic.MISSING), rest=(int, 0))


def factory(dice: Random, inner: Any) -> Any:
    return pydantic.create_model("Defaults", inner=(list[inner], Field(default_factory=list)),
                                 day=(dt.date, dt.date(2024, 2, 29)))  # fmt: skip


def root(dice: Random, inner: Any) -> Any:
    return pydantic.RootModel[inner]


def renamed(dice: Random, inner: Any) -> Any:
    config = ConfigDict(alias_generator=to_camel, populate_by_name=dice.random() < 0.5)
    return pydantic.create_model(
        "Camel", __config__=config, inner_value=(inner, ...), so_on=(int, 0)
    )


UTC = dt.UTC
FIXED = fractions.Fraction(1, 3)
HASHED = (int, str, bool, dt.date, Side, Literal["a", 2], tuple[int, str], Point, uuid.UUID)
NUMBERS = (int, float, decimal.Decimal)
LENGTHY = (str, bytes, list[int], set[int], tuple[int, ...], dict[str, int], frozenset[str])
LENGTHY_MORE = (*LENGTHY, collections.deque[int], collections.OrderedDict[str, int])


def numbers(note: Callable[[int], Any]) -> Make:
    return lambda dice, _: Annotated[dice.choice(NUMBERS), note(dice.randint(-20, 20))]


def lengths(note: Callable[[int], Any]) -> Make:
    return lambda dice, _: Annotated[dice.choice(LENGTHY_MORE), note(dice.randint(1, 5))]


def text_rule(dice: Random, _: Any) -> Any:
    rules = dice.choice(
        (
            {"pattern": "^[a-c]{2,4}$"},
            {"pattern": r"\d+"},
            {"strip_whitespace": True, "min_length": 2},
            {"strip_whitespace": True, "pattern": "^[ab]+$"},
            {"to_lower": True, "max_length": 4},
            {"to_upper": True, "pattern": "^[A-Z]+$"},
            {"ascii_only": True, "max_length": 20},
            {"min_length": 2, "max_length": 2},
        )
    )
    return Annotated[str, pydantic.StringConstraints(**rules)]


SCALARS: dict[str, Make] = {
    "any": fixed(Any, object, pydantic.JsonValue),
    "none": fixed(None, type(None)),
    "bool": fixed(bool, pydantic.StrictBool),
    "int": fixed(int, pydantic.StrictInt, pydantic.PositiveInt, Annotated[int, Field(le=-5)]),
    "float": fixed(float, pydantic.StrictFloat, pydantic.NegativeFloat, pydantic.FiniteFloat),
    "str": fixed(str, pydantic.StrictStr),
    "bytes": fixed(bytes, pydantic.StrictBytes),
    "decimal": fixed(decimal.Decimal, Annotated[decimal.Decimal, Field(max_digits=5)],
                     Annotated[decimal.Decimal, Field(max_digits=6, decimal_places=2)]),
    "fraction": fixed(fractions.Fraction),
    "date": fixed(dt.date, Annotated[dt.date, Field(strict=True)]),
    "date with bounds": noted((dt.date, (at.Ge(dt.date(2000, 1, 1)), at.Lt(dt.date(2030, 1, 1))))),
    "time": fixed(dt.time),
    "datetime": fixed(dt.datetime, pydantic.AwareDatetime, pydantic.NaiveDatetime),
    "datetime with bounds": noted((dt.datetime, (at.Ge(dt.datetime(2000, 1, 1)),))),
    "timedelta": fixed(dt.timedelta),
    "timedelta with bounds": noted(
        (dt.timedelta, (at.Ge(dt.timedelta(0)), at.Lt(dt.timedelta(9))))
    ),
    "past": fixed(pydantic.PastDate, pydantic.FutureDate, pydantic.PastDatetime),
    "uuid": fixed(uuid.UUID, pydantic.UUID4, pydantic.UUID7, pydantic.UUID1),
    "literal": fixed(Literal["a", 'b"c', 3], Literal[True, None], Literal[-1, 0, 1], Literal["x"]),
    "literal of members": fixed(Literal[Level.LOW, "other"], Literal[Tone.DRY]),
    "enum": fixed(Side, Level, Tone, Mixed),
    "flag": fixed(Right, Bit),
    "path": fixed(pathlib.Path, pathlib.PurePosixPath),
    "ip": fixed(ipaddress.IPv4Address, ipaddress.IPv6Address, pydantic.IPvAnyAddress),
    "network": fixed(ipaddress.IPv4Network, ipaddress.IPv6Network, ipaddress.IPv4Interface,
                     ipaddress.IPv6Interface, pydantic.IPvAnyNetwork),
    "pattern": fixed(re.Pattern, re.Pattern[str]),
    "complex": fixed(complex),
    "zone": fixed(zoneinfo.ZoneInfo),
    "url": fixed(pydantic.HttpUrl, pydantic.AnyUrl, pydantic.FtpUrl),
    "multi-host-url": fixed(pydantic.PostgresDsn, pydantic.MongoDsn),
    "secret": fixed(pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret[int]),
    "byte size": fixed(pydantic.ByteSize),
    "base64": fixed(pydantic.Base64Bytes, pydantic.Base64Str, pydantic.Base64UrlStr),
    "named tuple": fixed(Row, tuple[Row, Row]),
    "recursive": fixed(Node, Tree, list[Node]),
    "dataclass": fixed(Point, list[Point]),
    "hashable": fixed(collections.abc.Hashable),
    "text rule": text_rule,
    "gt": numbers(at.Gt),
    "ge": numbers(at.Ge),
    "lt": numbers(at.Lt),
    "le": numbers(at.Le),
    "interval": lambda dice, _: Annotated[
        dice.choice(NUMBERS), at.Interval(gt=dice.randint(-9, 0), le=dice.randint(1, 9))
    ],
    "multiple of": lambda dice, _: Annotated[dice.choice((int, int, float)),
                                             at.MultipleOf(dice.choice((2, 3, 5, 10)))],
    "min length": lengths(at.MinLen),
    "max length": lengths(at.MaxLen),
    "length": lengths(lambda count: at.Len(count - 1, count + 2)),
    "timezone": noted((dt.datetime, (at.Timezone(None), at.Timezone(...)))),
    "lower case": fixed(at.LowerCase[str], at.LowerCase[Annotated[str, Field(max_length=9)]]),
    "upper case": fixed(at.UpperCase[str]),
    "digits": fixed(at.IsDigits[str]),
    "finite": fixed(at.IsFinite[float], at.IsNotNan[float], at.IsNotInfinite[float]),
    "doc": noted((int, (at.doc("a number"), Field(description="a number")))),
    "predicate": noted((int, (at.Predicate(lambda number: number > 3),))),
    "new type": fixed(Percent, NewType("Symbol", Annotated[str, Field(pattern="^[A-Z]{1,5}$")])),
}  # fmt: skip
"""Types by themselves."""

COMPOUNDS: dict[str, Make] = {
    "list": around(list, Sequence),
    "deque": around(collections.deque),
    "tuple": lambda dice, inner: dice.choice((of(tuple, inner, ...), of(tuple, inner, int))),
    "set": lambda dice, _: of(set, dice.choice(HASHED)),
    "frozenset": lambda dice, _: of(frozenset, dice.choice(HASHED)),
    "generator": around(Iterable),
    "dict": lambda dice, inner: of(dice.choice((dict, Mapping)), str, inner),
    "dict with keys": lambda dice, inner: of(dict, dice.choice(HASHED[:6]), inner),
    "dict with text keys": lambda dice, inner: of(
        dict, Annotated[str, dice.choice((Field(max_length=3), Field(pattern="^[a-z]+$")))], inner
    ),
    "ordered-dict": lambda dice, inner: of(collections.OrderedDict, str, inner),
    "default dict": lambda dice, inner: of(collections.defaultdict, str, of(list, inner)),
    "counter": lambda dice, _: of(collections.Counter, dice.choice((str, Side))),
    "nullable": nullable,
    "union": union,
    "tagged-union": tagged,
    "called tag": called_tag,
    "typed-dict": typed_dict,
    "dataclass made": dataclass,
    "model": model,
    "model with more": lambda dice, inner: model(dice, inner, extra="allow"),
    "model without more": lambda dice, inner: model(dice, inner, extra="forbid", frozen=True),
    "strict model": lambda dice, inner: model(dice, inner, strict=True),
    "aliases": aliased,
    "alias generator": renamed,
    "alias path": alias_path,
    "root model": root,
    "generic model": lambda dice, inner: Box[inner],
    "generic alias": lambda dice, inner: Pairs[inner],
    "computed": computed,
    "missing-sentinel": optional_missing,
    "default": factory,
    "on error": lambda dice, inner: of(list, pydantic.OnErrorOmit[inner]),
    "json": lambda dice, inner: pydantic.Json[inner],
    "fail fast": lambda dice, inner: Annotated[of(list, inner), Field(fail_fast=True)],
    "instance of": lambda dice, _: pydantic.InstanceOf[dice.choice((int, Cat))],
    "skipped": lambda dice, inner: pydantic.SkipValidation[inner],
    "own schema": lambda dice, _: Annotated[
        int, pydantic.WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 99})
    ],
    "custom-error": custom(
        lambda to: cs.custom_error_schema(to, "wrong", custom_error_message="no")
    ),
    "chain": custom(lambda to: cs.chain_schema([to, cs.any_schema()])),
    "lax-or-strict": custom(lambda to: cs.lax_or_strict_schema(to, to)),
    "json-or-python": custom(lambda to: cs.json_or_python_schema(to, cs.any_schema())),
    "function-after": lambda dice, inner: Annotated[inner, pydantic.AfterValidator(refuse_some)],
    "function-before": lambda dice, inner: Annotated[inner, pydantic.BeforeValidator(refuse_some)],
    "function-wrap": lambda dice, inner: Annotated[inner, pydantic.WrapValidator(refuse_wrapped)],
    "function-plain": lambda dice, inner: Annotated[
        inner, pydantic.PlainValidator(refuse_some, json_schema_input_type=inner)
    ],
    "validators": validated,
}  # fmt: skip
"""Types around others."""

APART = ("set", "frozenset", "counter", "instance of", "skipped", "own schema", "function-plain",
         "validators")  # fmt: skip
SCALARS |= {name: COMPOUNDS.pop(name) for name in APART}  # they hold no other type
FEATURES = {**SCALARS, **COMPOUNDS}
