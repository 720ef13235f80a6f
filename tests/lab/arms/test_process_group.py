"""Nothing that a bench has started outlives it, not even what stands still."""

import os
import subprocess
import sys

import pytest

from agentrt.lab.arms.process_group import GroupReaper

BENCH = """
import sys
from agentrt.lab.arms.arm_process import Arm, ArmProcess

echo = "import sys\\nfor line in sys.stdin: print(line, end='', flush=True)"
process = ArmProcess(Arm("echo", "", (sys.executable, "-c", echo)))  # halted once it is opened
print(process.pid, flush=True)
sys.stdin.read()
"""


def wait_for_end(pid: int) -> None:
    """The process that adopts it may leave a zombie for a while."""
    while True:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except FileNotFoundError:
            return


def test_what_stands_still_ends_with_its_bench() -> None:
    bench = subprocess.Popen(
        [sys.executable, "-c", BENCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with bench:
        assert bench.stdout is not None
        pid = int(bench.stdout.readline())
        os.kill(pid, 0)
        bench.kill()
    wait_for_end(pid)


@pytest.fixture
def sleeper():
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process
        process.kill()


def test_what_is_let_go_of_lives_on(sleeper: subprocess.Popen[bytes]) -> None:
    reaper = GroupReaper(sleeper.pid)
    reaper.close()
    reaper.close()
    assert sleeper.poll() is None
