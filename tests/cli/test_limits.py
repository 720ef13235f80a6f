"""`--limit NAME=N`: limits of runs and of servers by the names that they have in Python."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.config import RunConfig
from agentrt.base.errors import UsageError
from agentrt.cli.limits import OF_RUNS, OF_SERVERS, given_limits
from agentrt.remote import RemoteLimits

FORKS = """
from agentrt import gather, program, tool

@tool(effects="pure")
async def double(n: int) -> int:
    return 2 * n

@program
async def job() -> int:
    return sum(await gather(*(double(n) for n in range(20))))
"""

NO_COSTS = ("max_cost=0", "max_cost=a", "max_cost")
ASKS = """
from agentrt import chat, program

@program
async def job() -> str:
    return await chat().user("Name a river.").generate(max_tokens=10)
"""


def test_each_name_is_a_field() -> None:
    assert set(OF_RUNS) <= {one.name for one in fields(RunConfig)}
    assert {*OF_SERVERS, "opening_s"} == {one.name for one in fields(RemoteLimits)}


def test_the_last_one_of_a_name_counts() -> None:
    found = given_limits(["max_nodes=5", "attempts=2", "max_nodes=7", "write_grace_s=0"])
    assert found.of_runs == {"max_nodes": 7, "write_grace_s": 0.0}
    assert found.of_servers == {"attempts": 2}
    assert given_limits(["max_cost=0.50"]).of_runs == {"max_cost": "0.50"}, "no float rounds it"


@pytest.mark.parametrize("text", ["max_node=5", "5", "=5", "seed=1"])
def test_an_unknown_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no limit") as refused:
        given_limits([text])
    assert "max_nodes" in refused.value.hint


@pytest.mark.parametrize(
    "text",
    ["max_nodes=0", "max_nodes=1.5", "max_nodes", "attempts=-1", "retry_after_s=nan", *NO_COSTS],
)
def test_a_value_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        given_limits([text])


def test_a_limit_of_servers_needs_a_server(inside: Callable[..., Any]) -> None:
    told = inside("run", "job.py", "--limit", "attempts=2")
    assert told.code == 2


def test_a_run_is_held_to_its_limits(
    served: Callable[..., Any],
    program: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program(FORKS)
    assert served("job.py", "--limit", "max_nodes=21").out == "380\n"
    told = served("job.py", "--limit", "max_nodes=20", "--limit", "attempts=1")
    assert told.code == 5
    assert "would pass max_nodes=20" in told.err
    monkeypatch.setenv("AGENTRT_LIMITS", "max_nodes=20 max_depth=9")
    assert served("job.py").code == 5


def test_a_run_is_held_to_its_cost(
    served: Callable[..., Any], program: Callable[..., Path]
) -> None:
    program(ASKS)
    told = served("job.py", "--limit", "max_cost=0.50")
    assert told.code == 3
    assert "has no prices" in told.err
