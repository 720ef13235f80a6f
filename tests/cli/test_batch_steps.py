"""`--batch` on the embedded engine: programs that run at once are served by the same steps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
RUNS = 8
JOB = """
from agentrt import chat, program, regex

@program
async def job(n: int) -> str:
    return await chat().user(f"Say {n}.").generate(regex("[a-f]{120}"), max_tokens=200)
"""


def test_programs_share_steps(
    agentrt: Callable[..., Any], program: Callable[..., Path], model: str, tmp_path: Path
) -> None:
    """Each program generates once, so a step with two sequences is a step of two programs."""
    program(JOB)
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({"n": n}) for n in range(RUNS)))
    told = agentrt(
        *("run", "job.py", "--batch", "in.jsonl", "--concurrency", str(RUNS), "--json"),
        *("--model", model, "--trace", "file=spans"),
        env={"AGENTRT_TRACE_STEPS": "1"},
    )
    assert told.code == 0, told.err
    runs = [json.loads(line) for line in told.out.splitlines()]
    assert [len(run["output"]) for run in runs] == [120] * RUNS
    for run in runs:
        steps = sizes_of_steps(tmp_path / run["trace"]["file"])
        assert len(steps) > 10
        assert max(steps) > 1


def sizes_of_steps(file: Path) -> list[int]:
    """How many sequences were in each step that served a run."""
    traces = json.loads(file.read_text("utf-8"))["data"]
    assert sum(is_generation(span) for span in traces[0]["spans"]) == 1
    return [
        tag["value"]
        for trace in traces
        for span in trace["spans"]
        for tag in span["tags"]
        if tag["key"] == "agentrt.batch.size"
    ]


def is_generation(span: dict[str, Any]) -> bool:
    """Whether a span is a generation's."""
    return any(t["key"] == "gen_ai.operation.name" and t["value"] == "chat" for t in span["tags"])
