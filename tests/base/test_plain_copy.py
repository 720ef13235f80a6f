"""Plain copies keep a value as it was, whatever it is and however large."""

from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentrt.base.plain_copy import PlainCopy


class Colour(Enum):
    RED = "red"


@dataclass(slots=True)
class Point:
    x: int
    tags: list[str] = field(default_factory=list)


class Share(BaseModel):
    symbol: str
    at: date


class Broken(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError(key)

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no keys")


Pair = namedtuple("Pair", "a b")

FORMS: list[tuple[Any, Any]] = [
    ("text", "text"),
    (None, None),
    (True, True),
    (2.5, 2.5),
    ((1, {2}), [1, [2]]),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    ({1: Colour.RED}, {"1": "red"}),
    (Point(1, ["a"]), {"x": 1, "tags": ["a"]}),
    (Share(symbol="IBM", at=date(2010, 3, 1)), {"symbol": "IBM", "at": "2010-03-01"}),
    (Pair(1, 2), [1, 2]),
    (Path("a/b"), "a/b"),
    (b"abc", "<3 bytes>"),
    (range(10**12), "<range>"),
    (object(), "<object>"),
    (Broken(), "<Broken>"),
]


@pytest.mark.parametrize(("value", "plain"), FORMS, ids=[repr(plain) for _, plain in FORMS])
def test_values_have_a_plain_form(value: Any, plain: Any) -> None:
    assert PlainCopy().of(value) == plain


def test_a_copy_does_not_change_with_the_value() -> None:
    value = {"rows": [Point(1)]}
    copied = PlainCopy().of(value)
    value["rows"][0].x = 9
    value["rows"].append(Point(2))
    assert copied == {"rows": [{"x": 1, "tags": []}]}


def test_a_large_value_is_cut_with_a_mark() -> None:
    copy = PlainCopy(max_parts=5)
    assert copy.of([[1, 2], list(range(9)), "c"]) == [[1, 2], ["[9 more]"], "c"]
    assert copy.left_out == 9
    assert PlainCopy(max_parts=1).of({"a": 1, "b": 2}) == {"a": 1, "[1 more]": None}


def test_a_value_that_holds_itself_ends() -> None:
    value: list[Any] = []
    value.append(value)
    copied = PlainCopy().of(value)
    depth = 0
    while isinstance(copied, list):
        copied, depth = copied[0], depth + 1
    assert (copied, depth) == ("<list>", 20)


def test_characters_of_texts_are_counted() -> None:
    copy = PlainCopy()
    copy.of({"a": "four", "b": ["three"]})
    assert copy.characters == 9
