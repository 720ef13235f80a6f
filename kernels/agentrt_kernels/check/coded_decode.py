"""`python -m agentrt_kernels.check.coded_decode`: decode attention over plain KV and over codes.

Both take turns on one thread of the native set. What counts is the CPU time of that thread: a busy
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

_CPU = torch.device("cpu")


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
        `plain_s` and `coded_s`, seconds of each turn; `plain_bytes` and `coded_bytes`; `speed_up`,
        the median of the plain over that of the coded ones.
    """
    both = [
        decode(sequences, context, heads, torch.bfloat16, _CPU, coded=coded)
        for coded in (False, True)
    ]
    samples: list[list[float]] = [[], []]
    for turn in range(1 + rounds):
        for one, times in zip(both, samples, strict=True):
            began_s = thread_time()
            for layer in range(one.rounds):
                one.call(kernels, layer)
            if turn:
                times.append((thread_time() - began_s) / one.rounds)
    plain_s, coded_s = samples
    return {
        "sequences": sequences,
        "context": context,
        "heads": [heads.query, heads.kv, heads.width],
        "plain_s": plain_s,
        "coded_s": coded_s,
        "plain_bytes": both[0].bytes,
        "coded_bytes": both[1].bytes,
        "speed_up": median(plain_s) / median(coded_s),
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
