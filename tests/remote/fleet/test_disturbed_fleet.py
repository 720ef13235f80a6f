"""No program is lost while a worker of its fleet is cut off, stopped or killed."""

import pytest

from tests.remote.fleet.printed_figures import FAULTLESS, harm_of, printed
from tests.remote.fleet.worker_networks import isolation

pytestmark = [pytest.mark.model, pytest.mark.slow]


@pytest.fixture
def networks() -> None:
    """Skips a test if this machine lets no test make networks."""
    _, why = isolation()
    if why:
        pytest.skip(why)


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize("fault", ["link", "answers", "stop"])
def test_a_worker_that_is_gone_is_left_alone_and_comes_back(fault: str) -> None:
    found = printed("cut_worker", fault)
    assert harm_of(found) == FAULTLESS, found["examples"]
    assert found["changed"] == 0
    assert found["sent_while_down"] == 0
    assert found["questions"] > 0
    assert found["answered_afterwards"] > 0


def test_programs_outlive_workers_that_are_killed_stopped_and_cut_off() -> None:
    few = ("--programs", "60", "--least-s", "30", "--calm-s", "5", "--tokens", "100")
    found = printed("disturbed_fleet", *few, "--every-s", "6", "--away-s", "9", "--width", "8")
    disturbed = found["disturbed"]
    assert harm_of(disturbed) == FAULTLESS, disturbed.get("examples")
    assert disturbed["programs"] >= 60
    assert sum(found["faults"].values()) >= 3
