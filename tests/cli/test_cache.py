"""`agentrt cache`, and runs that take answers from the response cache."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ASKS = """
from agentrt import chat, program

@program
async def job() -> bool:
    return await chat().user("Is the sky blue?").generate(bool, cache=True)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "answers" / "responses.sqlite"
    monkeypatch.setenv("AGENTRT_RESPONSE_CACHE", str(path))
    return path


def test_the_second_command_gets_the_answer_of_the_first(
    served: Callable[..., Any],
    inside: Callable[..., Any],
    program: Callable[..., Path],
    place: Path,
) -> None:
    program(ASKS)
    first = json.loads(served("job.py", "--json").out)
    second = json.loads(served("job.py", "--json").out)
    assert [one["spared"]["cached_responses"] for one in (first, second)] == [0, 1]
    assert first["output"] == second["output"]
    assert second["usage"]["output_tokens"] == 0
    assert second["latency"]["split_ms"]["cache"] > 0
    assert "cached 1" in served("job.py").err
    told = json.loads(inside("cache", "stats", "--json").out)
    assert told["answers"] == 1
    assert told["place"] == str(place)
    assert inside("cache", "stats").out.startswith("1 answer, ")
    assert inside("cache", "clear").out == f"dropped 1 answer of {place}\n"
    assert json.loads(inside("cache", "stats", "--json").out)["value_bytes"] == 0


def test_a_cache_that_is_switched_off_is_told(
    served: Callable[..., Any],
    inside: Callable[..., Any],
    program: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENTRT_RESPONSE_CACHE", "off")
    program(ASKS)
    served("job.py")
    assert json.loads(served("job.py", "--json").out)["spared"]["cached_responses"] == 0
    for command in ("stats", "clear"):
        assert "switched off" in inside("cache", command).out
    assert inside("cache", "stats", "--json").out == "null\n"


def test_a_cache_that_cannot_be_used_is_an_error_of_its_command(
    inside: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRT_RESPONSE_CACHE", str(tmp_path))
    told = inside("cache", "stats")
    assert told.code == 2
    assert "AGENTRT_RESPONSE_CACHE" in told.err
