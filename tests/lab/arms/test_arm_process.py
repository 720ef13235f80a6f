"""The process of an arm: answers, silence between, and how it ends."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.lab.arms.arm_process import ArmChild
from agentrt.lab.errors import BenchFailed

ECHO = """
import json, sys
print("a library says hello")
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "die":
        print("out of memory", file=sys.stderr)
        sys.exit(3)
    print(json.dumps({"asked": asked["do"]}), flush=True)
"""


@pytest.fixture
def child() -> Iterator[ArmChild]:
    one = ArmChild("echo", [sys.executable, "-c", ECHO], os.environ, patience_s=60)
    yield one
    one.close()


def state_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    return stat.rpartition(")")[2].split()[0]


def test_each_line_has_an_answer_and_other_output_is_none(child: ArmChild) -> None:
    assert child.ask({"do": "first"}) == {"asked": "first"}
    assert child.ask({"do": "second"}) == {"asked": "second"}


def test_it_stands_still_while_it_is_not_asked(child: ArmChild) -> None:
    child.ask({"do": "first"})
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)  # returns only once it has stopped
    assert state_of(child.pid) == "T"
    assert child.ask({"do": "second"}) == {"asked": "second"}


def test_an_end_is_told_with_its_last_words(child: ArmChild) -> None:
    with pytest.raises(BenchFailed, match="echo ended with 3: out of memory"):
        child.ask({"do": "die"})


def test_closing_ends_a_process_that_stands_still(child: ArmChild) -> None:
    child.ask({"do": "first"})
    child.close()
    child.close()
    with pytest.raises(BenchFailed):
        child.ask({"do": "again"})
