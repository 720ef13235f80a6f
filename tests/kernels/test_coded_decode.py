"""The comparison of decode attention over plain KV and over codes."""

from agentrt_kernels.check.coded_decode import compared
from agentrt_kernels.check.work import Heads


def test_both_are_timed_in_turns_over_the_bytes_that_they_read(kernels) -> None:
    found = compared(kernels, 2, 64, Heads(4, 2, 64), rounds=2)
    assert len(found["plain_s"]) == len(found["coded_s"]) == 2
    assert min(found["plain_s"] + found["coded_s"]) > 0
    assert found["plain_bytes"] / found["coded_bytes"] == 128 / 66
    assert found["speed_up"] > 0
