"""The comparison of decode attention over plain KV and over codes."""

from agentrt_kernels.check.coded_decode import compared
from agentrt_kernels.check.work import Heads


def test_all_are_timed_in_turns_over_the_bytes_that_they_read(kernels) -> None:
    found = compared(kernels, 2, 64, Heads(4, 2, 64), rounds=2)
    assert list(found["samples_s"]) == ["bf16", "int8", "fp8"]
    assert all(len(times) == 2 and min(times) > 0 for times in found["samples_s"].values())
    bytes_of = found["bytes"]
    assert bytes_of["bf16"] / bytes_of["int8"] == bytes_of["bf16"] / bytes_of["fp8"] == 128 / 66
    assert min(found["speed_up"].values()) > 0
