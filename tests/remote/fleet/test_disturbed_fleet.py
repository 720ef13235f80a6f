"""No program is lost while a worker of its fleet is cut off, stopped or killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.remote.fleet.worker_networks import isolation

pytestmark = [pytest.mark.model, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
LIMIT_S = 400
FAULTLESS = {"lost": 0, "diverged": 0, "wrong": 0, "twice": 0, "missing": 0}


@pytest.fixture
def networks() -> None:
    """Skips a test if this machine lets no test make networks."""
    _, why = isolation()
    if why:
        pytest.skip(why)


def printed(module: str, *arguments: str) -> dict[str, Any]:
    """What a command prints: it runs in namespaces of its own, which this process may not enter."""
    command = [sys.executable, "-m", f"tests.remote.fleet.{module}", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize("fault", ["link", "answers", "stop"])
def test_a_worker_that_is_gone_is_left_alone_and_comes_back(fault: str) -> None:
    found = printed("cut_worker", fault)
    assert {name: found[name] for name in FAULTLESS} == FAULTLESS, found["examples"]
    assert found["changed"] == 0
    assert found["sent_while_down"] == 0
    assert found["questions"] > 0
    assert found["answered_afterwards"] > 0


def test_programs_outlive_workers_that_are_killed_stopped_and_cut_off() -> None:
    few = ("--programs", "60", "--least-s", "30", "--calm-s", "5", "--tokens", "100")
    found = printed("disturbed_fleet", *few, "--every-s", "6", "--away-s", "9", "--width", "8")
    disturbed = found["disturbed"]
    assert {name: disturbed[name] for name in FAULTLESS} == FAULTLESS, disturbed.get("examples")
    assert disturbed["programs"] >= 60
    assert sum(found["faults"].values()) >= 3
