"""An arm answers each line with one line, and a failure with an error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import agentrt.lab.arms

PEERS = Path(agentrt.lab.arms.__file__).parent / "peers"
PEER = """
from answering import answer_lines
{arm}
answer_lines(Divider())
"""
OURS = """
import asyncio
from agentrt.lab.arms.answering import answer_lines
{arm}
asyncio.run(answer_lines(Divider()))
"""
ARM = """
class Divider:
    def divide(self, by): return {"is": 6 // by}
    async def later(self, by): return {"is": 6 // by}
"""
LINES = """{"do": "divide", "by": 2}
{"do": "divide", "by": 0}
{
{"do": "multiply"}
{"do": "later", "by": 3}
"""


@pytest.mark.parametrize(("script", "flags"), [(PEER, ["-S"]), (OURS, [])], ids=["peer", "ours"])
def test_a_question_that_fails_is_answered_and_the_next_one_too(
    script: str, flags: list[str]
) -> None:
    """A peer's loop runs without anything of agentrt, from the script's own folder."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", script.replace("{arm}", ARM)],
        cwd=PEERS,
        input=LINES,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0] == {"is": 3}
    assert answers[1]["error"].startswith("ZeroDivisionError: ")
    assert answers[2]["error"].startswith("JSONDecodeError: ")
    assert answers[3]["error"].startswith("AttributeError: ")
    assert answers[4] == {"is": 2}
