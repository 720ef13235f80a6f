"""What is known of readers: exact ones take all texts, the rest is tried, validators never run."""

import dataclasses
import datetime as dt
import enum
import json
import os
import uuid
from collections import OrderedDict, deque
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

import pytest
from llguidance import LLMatcher, LLTokenizer
from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    create_model,
    field_validator,
)
from typing_extensions import TypeAliasType, TypedDict

from agentrt.base.errors import ConstraintError
from agentrt.structured import checked_shape_of, json_shape_of, shape_of
from agentrt.structured.json_schema.declaration import texts_of
from agentrt.structured.json_schema.json_grammar import json_grammar
from agentrt.structured.types.core_schemas import EXACT, Reader, kinds_in, reader_of

Small = Annotated[int, Field(ge=-2, le=11)]
Short = Annotated[str, Field(max_length=1)]


class Side(enum.Enum):
    BUY = "b"
    ONE = 1


class Model(BaseModel):
    a: Small
    b: bool | None = None


class Cat(BaseModel):
    kind: Literal["c"]


class Dog(BaseModel):
    kind: Literal["d"]
    a: bool


@dataclasses.dataclass
class Data:
    a: bool
    b: Literal[1, 2] = 1


class Told(TypedDict):
    a: bool
    b: NotRequired[None]


class Row(NamedTuple):
    a: bool
    b: Small = 1


Tree = TypeAliasType("Tree", "list[Tree] | None")

SMALL: dict[str, Any] = {
    "any": Any,
    "none": None,
    "bool": bool,
    "int": Small,
    "float": Annotated[float, Field(gt=0.5, lt=2)],
    "str": Short,
    "literal": Literal["a", 1, True, None],
    "enum": Side,
    "uuid": uuid.UUID,
    "list": Annotated[list[bool], Field(max_length=2)],
    "deque": deque[bool],
    "tuple": tuple[Small, bool],
    "dict": dict[str, bool],
    "ordered-dict": OrderedDict[str, bool],
    "nullable": Small | None,
    "default": create_model("Default", a=(bool, True)),
    "union": Small | bool | Short,
    "tagged-union": Annotated[Cat | Dog, Field(discriminator="kind")],
    "definitions": Tree,
    "definition-ref": list[Tree],
    "model": Model,
    "model-fields": list[Model],
    "typed-dict": Told,
    "dataclass": Data,
    "dataclass-args": list[Data],
    "named-tuple": Row,
}
ALPHABET = sorted(b'"{}[]:,.-\\0129abcdefgiklnorstuy')
MOST_BYTES = 40
MOST_TEXTS = 60


def short_texts(grammar: str) -> list[str]:
    """The shortest texts of a grammar over a few characters, all of each length."""
    found: list[str] = []
    states = [(LLMatcher(LLTokenizer("byte"), grammar), b"")]
    for _ in range(MOST_BYTES):
        longer = []
        for matcher, text in states[:MOST_TEXTS]:
            if matcher.is_accepting():
                found.append(text.decode())
            mask = int.from_bytes(matcher.compute_bitmask(), "little")
            for byte in ALPHABET:
                if mask >> byte & 1:
                    more = matcher.deep_copy()
                    assert more.consume_token(byte)
                    longer.append((more, text + bytes([byte])))
        states = longer
        if len(found) > MOST_TEXTS or not states:
            break
    return found


def test_each_exact_kind_has_a_small_instance():
    assert SMALL.keys() == EXACT.keys()
    for kind, form in SMALL.items():
        assert kind in kinds_in(TypeAdapter(form).core_schema)


@pytest.mark.parametrize("kind", SMALL)
def test_an_exact_reader_takes_all_short_texts(kind):
    form = SMALL[kind]
    assert reader_of(TypeAdapter(form).core_schema) is Reader.EXACT
    shape = json_shape_of(form)
    texts = short_texts(json_grammar(shape.schema))
    assert texts
    for text in texts:
        shape.parse(text)


def refuse(value: Any) -> Any:
    raise AssertionError("called at the declaration")


class Checked(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def small(cls, a: int) -> int:
        refuse(a)
        return a


@dataclasses.dataclass
class Posted:
    a: int

    def __post_init__(self) -> None:
        refuse(self)


class Late(BaseModel):
    a: int

    def model_post_init(self, _: Any) -> None:
        refuse(self)


AUTHORS = [
    (Annotated[int, AfterValidator(refuse)], "refuse"),
    (list[Annotated[int, BeforeValidator(refuse)]], "refuse"),
    (dict[str, Checked], "small"),
    (Posted, "Posted"),
    (Late, "Late"),
    (
        Annotated[
            Annotated[int, Tag("a")] | Annotated[str, Tag("b")],
            Discriminator(lambda value: refuse(value)),
        ],
        "lambda",
    ),
]


@pytest.mark.parametrize(("form", "named"), AUTHORS)
def test_the_authors_code_is_not_called_and_needs_check(form, named):
    with pytest.raises(ConstraintError, match=f"calls .*{named}") as refused:
        shape_of(form)
    assert "check=True" in str(refused.value)
    assert checked_shape_of(form).checked


TRIED = [
    (Annotated[int, WithJsonSchema({"type": "string"})], "fits its grammar and is not read"),
    (set[list[int]], "hashable"),
]


@pytest.mark.parametrize(("form", "reason"), TRIED)
def test_a_type_that_is_not_read_needs_check(form, reason):
    with pytest.raises(ConstraintError, match=reason) as refused:
        shape_of(form)
    assert "check=True" in str(refused.value)
    assert checked_shape_of(form).checked


IMPOSSIBLE = [
    (type[int], "as a class"),
    (dict[tuple[int, int], str], "dict keys must be"),
    (Literal[Side.BUY], "use Side, or its value"),
    (Literal[b"x"], "as the bytes"),
    (len, "len"),
    (lambda value: value, "a function is a tool"),
]


@pytest.mark.parametrize("shape", [shape_of, checked_shape_of])
@pytest.mark.parametrize(("form", "reason"), IMPOSSIBLE)
def test_what_no_text_is_read_as_is_refused(form, reason, shape):
    with pytest.raises(ConstraintError, match=reason):
        shape(form)


def path_model(*path: Any) -> Any:
    return create_model("ByPath", a=(int, Field(validation_alias=AliasPath(*path))))


READ = [
    (path_model("data", "value"), '{"data":{"value":1}}'),
    (path_model("rows", 0), '{"rows":[1]}'),
    (path_model("rows", 1, "deep"), '{"rows":[null,{"deep":1}]}'),
    (Annotated[bytes, Field(max_length=2)], '"ab"'),
    (Annotated[dt.date, Field(ge=dt.date(1999, 12, 31), lt=dt.date(2024, 3, 1))], '"2024-02-29"'),
    (Annotated[dt.datetime, Field(gt=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))],
     '"2024-01-01T00:00:01"'),
    (Annotated[dt.timedelta, Field(ge=dt.timedelta(hours=-1), le=dt.timedelta(days=3))], '"P3D"'),
    (Annotated[dt.time, Field(ge=dt.time(9, 30), le=dt.time(16))], '"16:00:00"'),
    (Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)], '"a b"'),
    (complex, '"1.5+2j"'),
]  # fmt: skip


@pytest.mark.parametrize(("form", "text"), READ)
def test_forms_are_written_as_they_are_read(accepts, form, text):
    shape = json_shape_of(form)
    assert shape.spec is not None
    assert accepts(shape.spec, text)
    shape.parse(text)
    texts = texts_of(shape.spec)
    assert len(texts) > 1
    for other in texts:
        shape.parse(other)


OUTSIDE = [
    (dict[Literal["a", 2], int], '{"2":1}'),
    (dict[Literal["a", 2], int], '{"b":1}'),
    (Annotated[dt.date, Field(ge=dt.date(1999, 12, 31))], '"1999-12-30"'),
    (Annotated[dt.date, Field(gt=dt.date(1999, 12, 31))], '"1999-12-31"'),
    (Annotated[dt.date, Field(lt=dt.date(2024, 3, 1))], '"2024-03-01"'),
    (Annotated[dt.timedelta, Field(le=dt.timedelta(days=3))], '"PT73H"'),
    (Annotated[bytes, Field(max_length=2)], '"é€"'),
    (Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)], '" a"'),
]


@pytest.mark.parametrize(("form", "text"), OUTSIDE)
def test_what_is_not_read_is_not_written(accepts, form, text):
    spec = json_shape_of(form).spec
    assert spec is not None
    assert not accepts(spec, text)


def test_texts_are_kept_on_disk_and_drawn_again_if_they_are_old(monkeypatch, tmp_path):
    monkeypatch.setitem(os.environ, "XDG_STATE_HOME", str(tmp_path))
    form = Annotated[dt.date, Field(ge=dt.date(2001, 2, 3))]
    shape_of(form)
    (kept,) = tmp_path.glob("agentrt/texts/*.json")
    drawn = kept.read_text()
    assert len(json.loads(drawn)) > 5
    few = json.dumps(['"2024-01-01"'])
    kept.write_text(few)
    shape_of(form)
    assert kept.read_text() == few
    kept.write_text(json.dumps(['"of another grammar"']))
    shape_of(form)
    assert json.loads(kept.read_text())[0] == json.loads(drawn)[0]


def test_texts_that_cannot_be_kept_are_drawn_each_time(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setitem(os.environ, "XDG_STATE_HOME", str(Path(tmp_path) / "file"))
    shape_of(Annotated[dt.date, Field(ge=dt.date(2001, 2, 4))])
