"""Two real runs on one engine: their difference, their graph, and their other forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.model
JOB = """
from agentrt import chat, gather, program, tool

@tool(effects="pure")
def double(n: int) -> int:
    "Twice n."
    return 2 * n

@program
async def job(x: int) -> str:
    base = chat(system="Say something.").user(f"Of {x}.")
    samples = [base.user(str(at)).generate(max_tokens=4, name="sample") for at in range(x)]
    texts = await gather(*samples)
    twice = await double(x)
    return await base.user(*texts, str(twice)).generate(max_tokens=3, name="last")
"""


def test_what_two_runs_have_in_common(
    served: Callable[..., Any], inside: Callable[..., Any], program: Callable[..., Path]
) -> None:
    program(JOB)
    ids = []
    for x in ("2", "3"):
        told = served("job.py", "--x", x, "--json", "--seed", "1")
        assert told.code == 0, told.err
        ids.append(told.json["run_id"])
    found = inside("trace", "diff", *ids, "--json").json
    pairs = [(one["a"] and one["a"]["id"], one["b"]["id"]) for one in found["nodes"]]
    assert pairs == [
        ("job#0", "job#0"),
        ("job#0/sample#0", "job#0/sample#0"),
        ("job#0/sample#1", "job#0/sample#1"),
        ("job#0/double#0", "job#0/double#0"),
        ("job#0/last#0", "job#0/last#0"),
        (None, "job#0/sample#2"),
    ]
    assert found["total"]["output_tokens"] == 4
    assert found["b"]["total"]["output_tokens"] == 3 * 4 + 3
    assert inside("trace", "diff", ids[0], ids[0], "--max-slowdown", "0").code == 0

    rows = inside("trace", "export", "last", "--format", "csv").out.splitlines()
    assert len(rows) == 1 + len(pairs)
    drawn = inside("graph", "--run", ids[0]).out
    assert drawn.count("sample#35;") == 2
    code = inside("graph", "job.py").out
    for name in ("sample", "double", "last"):
        assert f'"{name}<br/>' in code
    told = inside("trace", "open", ids[1], "--out", "picture.html")
    assert told.code == 0
    assert "sample#2" in Path("picture.html").read_text()
