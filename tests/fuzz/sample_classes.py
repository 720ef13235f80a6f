"""Classes and functions that random types are made of."""

import dataclasses
import datetime as dt
import enum
from typing import Any, Generic, Literal, NamedTuple, NewType, TypeVar

import typing_extensions as te
from pydantic import BaseModel, Field

T = TypeVar("T")


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 7


class Tone(enum.StrEnum):
    DRY = "dry"
    WARM = "warm"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"
    HALF = 0.5
    NONE = None


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Bit(enum.IntFlag):
    A = 1
    B = 2


class Node(BaseModel):
    value: int
    left: "Node | None" = None
    kids: "list[Node]" = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = Field(alias="theName")


class Box(BaseModel, Generic[T]):
    inside: T
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


class Row(NamedTuple):
    symbol: str
    price: float
    day: dt.date | None = None


Tree = te.TypeAliasType("Tree", "list[Tree] | int")
Pairs = te.TypeAliasType("Pairs", list[tuple[str, T]], type_params=(T,))
Percent = NewType("Percent", float)


def tag_of(value: Any) -> str:
    return "text" if isinstance(value, str) else "other"


def refuse_some(value: Any) -> Any:
    if len(repr(value)) % 2:
        raise ValueError("odd")
    return value


def refuse_wrapped(value: Any, to: Any) -> Any:
    return refuse_some(to(value))
