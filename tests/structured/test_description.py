"""What a model is told of a type."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentrt.structured.types.description import description_of, schema_description


class Trend(enum.Enum):
    UP = "up"
    DOWN = "down"


class Fact(BaseModel):
    """One thing that was found."""

    day: dt.date = Field(description="When it was measured")
    share: float = Field(gt=0, le=1)
    trend: Trend = Field(alias="theTrend")


class Report(BaseModel):
    title: str = Field(max_length=80, description="A headline,\n   in sentence case")
    facts: list[Fact] = Field(min_length=1)
    kind: Literal["long", "short"] = "short"
    note: str | None = None
    kids: list[Report] = []


class Movie(TypedDict):
    title: str
    cast: tuple[str, int]
    scores: dict[str, list[int | None]]


def test_fields_bounds_and_words_are_told_in_order() -> None:
    assert description_of(Report).splitlines() == [
        "type Report = {",
        "  title: string,  // A headline, in sentence case; at most 80 characters",
        "  facts: Fact[],  // at least 1 items",
        '  kind?: "long" | "short",  // "short" when left out',
        "  note?: string | null,",
        "  kids?: Report[],  // [] when left out",
        "}",
        "type Fact = {  // One thing that was found.",
        "  day: string,  // When it was measured; a date",
        "  share: number,  // above 0; at most 1",
        "  theTrend: Trend,",
        "}",
        'type Trend = "up" | "down"',
        "Report",
    ]


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (str, ""),
        (int, "integer"),
        (Annotated[int, Field(ge=3, description="A year")], "integer  // A year; at least 3"),
        (Literal["a", 1], '"a" | 1'),
        (list[int | str], "(integer | string)[]"),
        (dict[str, Any], "{[key: string]: any}"),
        (
            Movie,
            "{\n  title: string,\n  cast: [string, integer],\n"
            "  scores: {[key: string]: (integer | null)[]},\n}",
        ),
    ],
)
def test_a_form_is_told_shortly(form: Any, told: str) -> None:
    assert description_of(form) == told


def test_a_schema_of_the_user_is_told_as_well() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/x"}}, "type": "object", "$defs": {"x": True}}
    assert schema_description(schema) == "type x = any\n{\n  a?: x,\n}"
    assert schema_description({"enum": list(range(50))}).endswith("39 | ...")
