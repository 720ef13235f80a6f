"""A tool from a function: schema, errors at declaration, arguments."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt.base.errors import ToolFailed, UsageError
from agentrt.tools import ToolSpec, prepare_declared
from tests.line_count import Lines


class Window(BaseModel):
    start: str
    days: int = 30


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Form(enum.Enum):
    ANNUAL = "10-K"
    QUARTER = "10-Q"


class Table:
    """Has no JSON form."""


def everything(
    ticker: str,
    form: Literal["10-K", "10-Q"],
    window: Window,
    at: Point,
    kind: Form = Form.ANNUAL,
    limit: Annotated[int, Field(ge=1, description="Own words.")] = 5,
    tags: list[str] | None = None,
) -> str:
    """Finds filings.

    Args:
        ticker: The symbol.
        limit: Not these words.
    """
    return f"{ticker} {form} {window.days} {at.x} {kind.value} {limit} {tags}"


def test_schema_from_the_signature():
    schema = ToolSpec.of(everything, effects="read").schema
    assert (schema.name, schema.description) == ("everything", "Finds filings.")
    properties = schema.parameters["properties"]
    assert list(properties) == ["ticker", "form", "window", "at", "kind", "limit", "tags"]
    assert properties["ticker"] == {"type": "string", "description": "The symbol."}
    assert properties["form"]["enum"] == ["10-K", "10-Q"]
    assert properties["limit"] == {
        "type": "integer",
        "minimum": 1,
        "description": "Own words.",
        "default": 5,
    }
    assert properties["kind"]["default"] == "10-K"
    assert schema.parameters["required"] == ["ticker", "form", "window", "at"]
    assert schema.parameters["additionalProperties"] is False
    assert set(schema.parameters["$defs"]) == {"Window", "Point", "Form"}
    assert "title" not in str(schema.parameters)


def test_parse_gives_python_values():
    spec = ToolSpec.of(everything)
    arguments = spec.parse(
        '{"ticker":"X","form":"10-K","window":{"start":"2020"},"at":{"x":1},"kind":"10-Q"}'
    )
    assert arguments["window"] == Window(start="2020")
    assert arguments["at"] == Point(1.0)
    assert arguments["kind"] is Form.QUARTER
    assert "limit" not in arguments
    assert spec.fn(**arguments) == "X 10-K 30 1.0 10-Q 5 None"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"ticker":1}', "ticker: Input should be a valid string"),
        ("{", "Invalid JSON"),
        ('{"ticker":"X","days":1}', "days: Extra inputs are not permitted"),
        ("{}", "ticker: Field required"),
    ],
)
def test_wrong_arguments_are_told(written, said):
    def prices(ticker: str) -> float:
        return 0.0

    with pytest.raises(ToolFailed, match=said) as error:
        ToolSpec.of(prices).parse(written)
    assert error.value.tool == "prices"
    assert error.value.attempts == 0
    assert Path(__file__).name in error.value.where


def test_bound_arguments_are_hidden():
    def total(table: Table, symbol: str) -> str:
        """Adds up."""
        return f"{table}{symbol}"

    spec = ToolSpec.of(total).bind(table="T")
    assert list(spec.parameters["properties"]) == ["symbol"]
    with pytest.raises(ToolFailed, match="table: Extra inputs"):
        spec.parse('{"symbol":"X","table":1}')
    assert spec.arguments(("X",), {}) == {"symbol": "X"}
    assert spec.arguments((), {"symbol": "X", "table": "U"}) == {"symbol": "X", "table": "U"}


def test_binding_what_is_not_there():
    with pytest.raises(UsageError, match="everything has no parameter tikker") as error:
        ToolSpec.of(everything).bind(tikker="X")
    assert "ticker" in error.value.hint


def test_binding_leaves_the_tool_as_it_was():
    spec = ToolSpec.of(everything)
    bound = spec.bind(ticker="X").bind(form="10-K")
    assert "ticker" in spec.parameters["properties"]
    assert next(iter(bound.parameters["properties"])) == "window"
    assert bound.bound == {"ticker": "X", "form": "10-K"}


def positional(a: int, /) -> int:
    return a


def starred(*parts: str) -> str:
    return "".join(parts)


def keywords(**parts: str) -> str:
    return "".join(parts)


def untyped(a, b: int) -> int:
    return b


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (positional, "parameter a: .*int.* cannot be given by name"),
        (starred, r"\*parts: .*str.* cannot be given by name"),
        (keywords, r"parameter \*\*parts has no names"),
        (untyped, "parameter a has no type"),
    ],
)
def test_signatures_that_cannot_work(fn, said):
    with pytest.raises(UsageError, match=said) as error:
        ToolSpec.of(fn)
    file, _, line = error.value.where.rpartition(":")
    assert Path(file).name == Path(__file__).name
    assert int(line) == fn.__code__.co_firstlineno
    assert error.value.hint


def test_types_without_json_form_must_be_bound():
    def total(table: Table) -> int:
        return 0

    spec = ToolSpec.of(total)
    with pytest.raises(UsageError, match="type of parameter table has no JSON form") as error:
        _ = spec.schema
    assert "total.bind(table=...)" in error.value.hint
    assert spec.bind(table=Table()).parameters["properties"] == {}


def test_types_that_pydantic_cannot_read_are_the_parameters_fault():
    def find(name: Annotated[str, Field(pattern="(?=a)")]) -> int:
        return 0

    spec = ToolSpec.of(find)
    prepare_declared()  # in a thread of its own, which an error would end
    with pytest.raises(UsageError, match="type of parameter name has no JSON form"):
        _ = spec.schema


def test_defaults_without_json_form_must_be_bound():
    def total(table: Any = Table()) -> int:  # noqa: B008
        return 0

    with pytest.raises(UsageError, match="default of parameter table has no JSON form"):
        _ = ToolSpec.of(total).schema


def test_names_defined_later():
    def later(point: Later) -> float:  # type: ignore[name-defined]  # noqa: F821
        return 0.0

    with pytest.raises(UsageError, match="names Later, which is not defined"):
        _ = ToolSpec.of(later).schema


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"effects": "writes"}, "effects='writes'"),
        ({"timeout_s": 0}, "timeout of 0 s"),
        ({"retries": -1}, "retries=-1"),
        ({"stable_for_s": -1}, "stable for -1 s"),
        ({"retries": 2}, "writes, so it is never started twice"),
        ({"name": "no spaces"}, "cannot be called 'no spaces'"),
    ],
)
def test_settings_that_cannot_work(settings, said):
    with pytest.raises(UsageError, match=said) as error:
        ToolSpec.of(everything, **settings)
    assert error.value.hint
    assert error.value.where


def test_a_lambda_needs_a_name():
    with pytest.raises(UsageError, match="cannot be called '<lambda>'"):
        ToolSpec.of(lambda: 1)
    assert ToolSpec.of(lambda: 1, name="one").name == "one"


def test_arguments_of_a_call_in_a_program():
    spec = ToolSpec.of(everything)
    window, at = Window(start="x"), Point(1)
    given = spec.arguments(("X", "10-K"), {"window": window, "at": at})
    assert given == {"ticker": "X", "form": "10-K", "window": window, "at": at}
    with pytest.raises(UsageError, match="missing a required argument: 'form'"):
        spec.arguments(("X",), {})


class Search:
    """Not a tool's words."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def find(self, query: str) -> str:
        """Titles that match."""
        return f"{self.name} {query}"

    async def __call__(self, query: str) -> str:
        """Titles that match."""
        return await self.find(query)


def test_methods_objects_and_partials():
    method = ToolSpec.of(Search("a").find)
    assert (method.name, method.description, method.is_async) == (
        "find",
        "Titles that match.",
        True,
    )
    thing = ToolSpec.of(Search("a"), name="search")
    assert thing.is_async
    assert list(thing.parameters["properties"]) == ["query"]
    part = ToolSpec.of(functools.partial(everything, "X"), name="filings")
    assert "ticker" not in part.parameters["properties"]
    assert not part.is_async


def test_binding_the_same_names_again_costs_no_new_schema() -> None:
    def scale(x: int, by: int = 2) -> int:
        """x times by."""
        return x * by

    spec = ToolSpec.of(scale, effects="pure")
    one, other = spec.bind(by=3), spec.bind(by=4)
    assert one.schema is other.schema
    assert one.bound != other.bound
    assert spec.schema is not one.schema
    assert "by" not in one.parameters["properties"]


def test_schemas_are_built_ahead_without_what_no_model_could_write():
    def rows(symbol: str, table: Table) -> int:
        return 0

    def late(symbol: str, table: Table) -> int:
        return 0

    spec = ToolSpec.of(rows)
    prepare_declared()
    with Lines("tools/schema.py") as lines:
        assert list(spec.bind(table=Table()).schema.parameters["properties"]) == ["symbol"]
    assert lines.total() == 0, "built again"
    with Lines("tools/schema.py") as lines:
        assert ToolSpec.of(late).bind(table=Table()).schema
    assert lines.total() > 0


def test_what_is_wrong_with_a_tool_does_not_show_before_it_is_used():
    def odd(when: Any = Table()) -> int:  # noqa: B008
        return 0

    spec = ToolSpec.of(odd)
    prepare_declared()
    with pytest.raises(UsageError, match="default of parameter when has no JSON form"):
        _ = spec.schema


def test_binding_in_each_run_reads_the_signature_once() -> None:
    """A program binds its data to its tools in every run."""
    reads: list[str] = []

    class Sum:
        """Adds."""

        @property
        def __signature__(self) -> inspect.Signature:
            reads.append("read")
            return inspect.signature(add)

        def __call__(self, x: int, y: int) -> int:
            return add(x, y)

    def add(x: int, y: int) -> int:
        return x + y

    spec = ToolSpec.of(Sum(), name="sum")
    before = len(reads)
    bound = [spec.bind(y=at) for at in range(4)]
    assert [one.bound for one in bound] == [{"y": at} for at in range(4)]
    assert len(reads) == before + 1
