"""The output of a type is made once for all calls, unless it is one run's alone."""

from typing import Literal

from agentrt import json_schema
from agentrt.program.output import value_of


def test_a_type_has_one_output() -> None:
    assert value_of(list[int]) is value_of(list[int])
    assert value_of(str) is value_of(str)


def test_other_types_styles_and_checks_have_outputs_of_their_own() -> None:
    assert value_of(Literal["1"]) is not value_of(Literal["2"])
    assert value_of(int) is not value_of(int, style="spaced")
    assert value_of(int, check=True) is not value_of(int)


def test_a_constraint_is_not_kept() -> None:
    schema = json_schema({"type": "integer"})
    assert value_of(schema) is not value_of(schema)
