"""Bounds of the numbers of flags: each number of each command has some, and NaN is never within."""

import math
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.errors import UsageError
from agentrt.lab.commands.bench import bench
from agentrt.lab.commands.sim import sim
from agentrt.lab.number_bounds import BOUNDS, NumberBounds, check_numbers

ABSURD: dict[type, tuple[float, ...]] = {
    int: (10**30, -(10**30)),
    float: (math.nan, math.inf, 1e300, -1.0),
}


@pytest.mark.parametrize("commands", [bench, sim], ids=["bench", "sim"])
def test_every_number_is_bounded_and_every_default_is_taken(commands: typer.Typer) -> None:
    group: Any = typer.main.get_command(commands)
    seen = 0
    for command in group.commands.values():
        for flag in command.params:
            check_numbers({flag.name: flag.default})
            for value in ABSURD.get(type(flag.default), ()):
                seen += 1
                with pytest.raises(UsageError, match="is out of range"):
                    check_numbers({flag.name: value})
    assert seen > 50


def test_every_name_with_bounds_is_a_flag() -> None:
    groups: list[Any] = [typer.main.get_command(one) for one in (bench, sim)]
    commands = [command for group in groups for command in group.commands.values()]
    assert set(BOUNDS) <= {flag.name for command in commands for flag in command.params}


@given(st.floats(allow_nan=True), st.floats(1e-6, 1.0), st.floats(1.0, 1e6), st.booleans())
def test_a_number_passes_if_it_is_between_or_zero(
    value: float, least: float, most: float, takes_zero: bool
) -> None:
    bounds = NumberBounds(least, most, takes_zero)
    fits = (value >= least and value <= most) or (takes_zero and value == 0)
    if fits:
        bounds.check(value, "--rate")
    else:
        with pytest.raises(UsageError, match=r"--rate .* is out of range\. Give "):
            bounds.check(value, "--rate")


def test_a_switch_is_no_number() -> None:
    check_numbers({"seed": True, "share": True, "policy": "rwa"})
