"""Facts are values, and making one is one call however many fields it has."""

import sys
from dataclasses import field
from types import FrameType

from agentrt.base.ids import NodeId, RunId
from agentrt.base.record import record
from agentrt.protocol.events import NodeDeclared


@record
class Point:
    x: int
    y: int = 0


def move(point: Point) -> None:
    point.x = 1  # type: ignore[misc]  # what strict type checking refuses; see `record`


def test_facts_are_equal_and_hashed_by_value() -> None:
    assert Point(1) == Point(1, 0) != Point(1, 1)
    assert len({Point(1), Point(1, 0)}) == 1
    assert not hasattr(Point(1), "__dict__")


def test_making_a_fact_is_one_call_whatever_its_fields() -> None:
    calls: list[str] = []

    def count(frame: FrameType, what: str, argument: object) -> None:
        if what in ("call", "c_call"):
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    NodeDeclared(RunId("r"), NodeId("n"), "tool", "n", None, (), "a.py:1", 0.0, attributes={})
    sys.setprofile(None)
    assert calls[:-1] == ["__init__"]  # the last is the end of counting


@record
class Measured:
    name: str
    at_s: float = field(default=0.0, compare=False)
    notes: list[object] = field(default_factory=list, hash=False, repr=False)


def test_fields_may_stay_out_of_a_comparison() -> None:
    assert Measured("a", 1.0) == Measured("a", 2.0) != Measured("a", notes=[1])
    assert hash(Measured("a", 1.0)) == hash(Measured("a", 2.0, [1]))
    assert repr(Measured("a", 1.0)) == "Measured(name='a', at_s=1.0)"


@record
class Lone:
    value: object


class NoBool:
    """Compares to something that is no truth value, as arrays do."""

    def __eq__(self, other: object) -> object:  # type: ignore[override]  # as arrays do
        return [other]

    __hash__ = None  # type: ignore[assignment]  # as arrays do


def test_a_record_of_one_field_compares_as_one_of_many() -> None:
    nan = float("nan")
    assert Lone(nan) == Lone(nan)
    assert (Lone(NoBool()) == Lone(NoBool())) is True
    assert Lone(1) != Lone(2)
    assert len({Lone(1), Lone(1)}) == 1


@record
class Nothing:
    pass


@record
class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


def test_a_record_keeps_methods_of_its_own() -> None:
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Nothing()) == "Nothing()"
    assert {Named("A")} == {Named("a")}
    assert repr([Named("a")]) == "[<a>]"


def test_a_record_that_holds_itself_is_shown() -> None:
    held = Measured("a", notes=[])
    outer = Holder([held])
    outer.held.append(outer)
    assert repr(outer) == f"Holder(held=[{held!r}, ...])"


@record
class Holder:
    held: list[object]
