"""`python -m agentrt_kernels.check.coded_decode`: decode attention over plain KV and over codes.

All take turns on one thread of the native set. What counts is the CPU time of that thread: a busy
machine slows a wall clock, and hardly changes the work.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import median
from time import thread_time
from typing import Any

import torch

from agentrt_kernels.check.work import Heads, decode
from agentrt_kernels.contract import Kernels
from agentrt_kernels.kv_codes import CODE_DTYPES

_CPU = torch.device("cpu")
_PLAIN = "bf16"


def compared(
    kernels: Kernels, sequences: int, context: int, heads: Heads, *, rounds: int
) -> dict[str, Any]:
    """Times of one layer's attention for one step, as plain data.

    Args:
        kernels: The set, on one thread.
        sequences: Sequences, each with a row.
        context: Tokens of each.
        heads: Heads of the layer, in bf16.
        rounds: Turns that count, after one that does not.

    Returns:
        By "bf16" and each kind of codes: `samples_s`, seconds of each turn, and `bytes`; by each
        kind of codes `speed_up`, the median in bf16 over that of the codes.
    """
    works = {
        name: decode(sequences, context, heads, torch.bfloat16, _CPU, codes=codes)
        for name, codes in ((_PLAIN, ""), *((name, name) for name in CODE_DTYPES))
    }
    samples: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(1 + rounds):
        for name, one in works.items():
            began_s = thread_time()
            for layer in range(one.rounds):
                one.call(kernels, layer)
            if turn:
                samples[name].append((thread_time() - began_s) / one.rounds)
    return {
        "sequences": sequences,
        "context": context,
        "heads": [heads.query, heads.kv, heads.width],
        "samples_s": samples,
        "bytes": {name: one.bytes for name, one in works.items()},
        "speed_up": {name: median(samples[_PLAIN]) / median(samples[name]) for name in CODE_DTYPES},
    }


def main(arguments: list[str]) -> int:
    """Compare at the heads of Qwen2.5-0.5B and of Llama-3.1-8B; a JSON line for each context."""
    from agentrt_kernels.cpu.kernel_set import CpuKernels

    parser = argparse.ArgumentParser(prog="python -m agentrt_kernels.check.coded_decode")
    parser.add_argument("--context", type=int, nargs="+", default=[2048, 8192, 32768])
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args(arguments)
    kernels = CpuKernels(1)
    for heads in (Heads(14, 2, 64), Heads(32, 8, 128)):
        for context in given.context:
            found = compared(kernels, given.sequences, context, heads, rounds=given.rounds)
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
