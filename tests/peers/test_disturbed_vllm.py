"""No program is lost while one of two replicas of vLLM is killed."""

import pytest

from agentrt import UsageError, embedded
from agentrt.lab.arms.peer_files import peer_files
from tests.remote.fleet.printed_figures import FAULTLESS, harm_of, printed


@pytest.mark.peers
def test_programs_outlive_a_replica_that_is_killed() -> None:
    try:
        peer_files(embedded.path()).check("vllm")
    except UsageError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    few = ("--programs", "20", "--least-s", "40", "--calm-s", "5", "--tokens", "40")
    kill = ("--faults", "kill", "--most-faults", "1", "--width", "4")
    found = printed("disturbed_fleet", "--kind", "vllm", "--workers", "2", *few, *kill)
    assert found["faults"] == {"kill": 1}
    assert harm_of(found["disturbed"]) == FAULTLESS, found["disturbed"].get("examples")
