"""Threads of the native library that outnumber the cores: they give their core up, and end."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CALLS = 200
ALONE = f"""
import json, os, resource, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # of the threads too, which come later
import torch
from agentrt_kernels.cpu.kernel_set import CpuKernels

threads, spins = map(int, sys.argv[1:])
torch.set_num_threads(1)
source = torch.Generator().manual_seed(1)
x, weight = torch.randn(256, 1024, generator=source), torch.randn(1024, generator=source)
kernels = CpuKernels(1)
expected, found = torch.empty_like(x), torch.empty_like(x)
kernels.rms_norm(x, weight, 1e-5, expected)
kernels.use_threads(threads, spins)
before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
wrong = 0
for _ in range({CALLS}):
    found.zero_()
    kernels.rms_norm(x, weight, 1e-5, found)
    wrong += not torch.equal(found, expected)
print(json.dumps([wrong, resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="affinity and futexes are Linux's")
@pytest.mark.parametrize(("threads", "spins"), [(3, 0), (3, 4000), (16, 0), (16, 4000)])
def test_threads_on_one_core_take_turns(native, threads, spins):
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(threads), str(spins)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,  # a thread that waits without end ends the test
        check=True,
    )
    wrong, given_up = json.loads(done.stdout)
    assert wrong == 0
    assert given_up > CALLS, "a thread that waits sleeps, or the others wait for its time slice"
