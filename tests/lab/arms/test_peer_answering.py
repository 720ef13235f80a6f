"""Peers answer each line with one line, and what goes wrong with an error."""

import json
import subprocess
import sys
from pathlib import Path

import agentrt.lab.arms

PEERS = Path(agentrt.lab.arms.__file__).parent / "peers"
SCRIPT = """
from answering import answer_lines
answer_lines(lambda question: {"is": 6 // question["by"]})
"""


def test_a_question_that_fails_is_answered_and_the_next_one_too() -> None:
    """In an environment where there is nothing of ours, from the script's own folder."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", SCRIPT],
        cwd=PEERS,
        input='{"by": 2}\n{"by": 0}\n{\n{"by": 3}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[0] == {"is": 3}
    assert told[1]["error"].startswith("ZeroDivisionError: ")
    assert told[2]["error"].startswith("JSONDecodeError: ")
    assert told[3] == {"is": 2}
