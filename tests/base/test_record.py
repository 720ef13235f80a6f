"""Facts are values, and making one is one call however many fields it has."""

import sys
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
