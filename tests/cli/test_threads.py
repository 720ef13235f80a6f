"""More threads than cores are refused, by every command that takes a number of them."""

import os

import pytest

from agentrt.base.cpu_cores import at_most_cores
from agentrt.base.errors import UsageError
from agentrt.cli.main import answer

# Each would be refused for something else next, so that none begins to measure.
COMMANDS = [
    ["serve", "--policy", "none"],
    ["bench", "engine", "--shape", "none"],
    ["bench", "compound", "--shape", "none"],
    ["sim", "calibrate", "--out", "x", "--device", "none"],
    ["sim", "validate", "--policies", "none"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("threads", ["1000", "-1"])
def test_a_number_out_of_range_says_how_many_there_are(
    command: list[str], threads: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer([*command, "--threads", threads]) == 2
    told = capsys.readouterr().err
    assert f"--threads {threads} is out of range: this process may use" in told
    assert "0" in told.splitlines()[-1]


@pytest.mark.parametrize(("cores", "way"), [({0}, "give 1 or 0"), ({1, 3, 5}, "give 1 to 3, or 0")])
def test_cores_are_those_of_this_process(
    cores: set[int], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    assert [at_most_cores(one) for one in range(len(cores) + 1)] == [*range(len(cores) + 1)]
    with pytest.raises(UsageError) as refused:
        at_most_cores(len(cores) + 1)
    assert way in str(refused.value.hint)
