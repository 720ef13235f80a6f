"""No program is lost when its server is killed, and no item comes twice."""

import anyio
import pytest

from tests.remote.killed_server import play


@pytest.mark.model
@pytest.mark.slow
def test_programs_outlive_servers_that_are_killed() -> None:
    found = anyio.run(play, "ours", 2)
    assert found.kills == 2
    assert found.resubmitted
    assert (found.lost, found.twice_or_missing) == ([], [])
