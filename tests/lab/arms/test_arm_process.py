"""The process of an arm: answers, silence between, and how it ends."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.lab.arms.arm_process import Arm, ArmProcess
from agentrt.lab.errors import BenchFailed

ECHO = """
import json, sys, time
print("a library says hello")
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "die":
        print("out of memory", file=sys.stderr)
        sys.exit(3)
    if asked["do"] == "hang":
        time.sleep(600)
    failed = {"error": "no room", "hint": "Make some"}
    answer = failed if asked["do"] == "fail" else {"asked": asked}
    print(json.dumps(answer), flush=True)
"""
SETTINGS = {"size": 3}


@pytest.fixture
def echo() -> Iterator[ArmProcess]:
    arm = Arm("echo", "loud", (sys.executable, "-c", ECHO), SETTINGS)
    one = ArmProcess(arm, patience_s=60)
    yield one
    one.close()


def state_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    return stat.rpartition(")")[2].split()[0]


def test_it_is_opened_with_its_settings(echo: ArmProcess) -> None:
    assert echo.about == {"asked": {"do": "open", "settings": SETTINGS}}


def test_each_question_has_an_answer_and_other_output_is_none(echo: ArmProcess) -> None:
    assert echo.ask("first", size=1) == {"asked": {"do": "first", "size": 1}}
    assert echo.ask("second") == {"asked": {"do": "second"}}


def test_it_is_halted_between_questions(echo: ArmProcess) -> None:
    os.waitid(os.P_PID, echo.pid, os.WSTOPPED | os.WNOWAIT)  # returns only once it has stopped
    assert state_of(echo.pid) == "T"
    assert echo.ask("second") == {"asked": {"do": "second"}}


def test_an_error_is_raised_with_its_hint_and_the_process_goes_on(echo: ArmProcess) -> None:
    with pytest.raises(BenchFailed, match="echo loud failed: no room") as raised:
        echo.ask("fail")
    assert raised.value.hint == "Make some"
    assert echo.is_running
    assert echo.ask("again") == {"asked": {"do": "again"}}


def test_an_end_is_reported_with_its_last_words(echo: ArmProcess) -> None:
    with pytest.raises(BenchFailed, match="echo loud ended with 3: out of memory"):
        echo.ask("die")
    assert not echo.is_running


def test_an_answer_that_takes_too_long_ends_the_process() -> None:
    hasty = ArmProcess(Arm("echo", "", (sys.executable, "-c", ECHO)), patience_s=0.01)
    with pytest.raises(BenchFailed, match="no answer within 0 s"):
        hasty.ask("hang")
    assert not hasty.is_running


def test_another_thread_can_give_a_call_up(echo: ArmProcess) -> None:
    killer = threading.Timer(0.0, echo.give_up, [BenchFailed("the server has ended")])
    killer.start()
    with pytest.raises(BenchFailed, match="the server has ended"):
        echo.ask("hang")
    killer.join()


def test_closing_ends_a_halted_process(echo: ArmProcess) -> None:
    echo.close()
    echo.close()
    with pytest.raises(BenchFailed):
        echo.ask("again")


def test_an_arm_that_cannot_be_opened_is_closed() -> None:
    command = (sys.executable, "-c", "raise SystemExit('no weights')")
    with pytest.raises(BenchFailed, match="ended with 1: no weights"):
        ArmProcess(Arm("broken", "", command))
