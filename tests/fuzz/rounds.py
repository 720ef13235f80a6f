"""Rounds and seeds of the fuzzers: short ones by default, long ones by `make fuzz`."""

import os
from random import Random

SEED = int(os.environ.get("FUZZ_SEED", "1"))
FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))
"""How many times the short round's cases a fuzzer runs."""


def dice_of(case: int) -> Random:
    """The chances of one case: each is drawn by itself, so that it can be repeated alone."""
    return Random(f"{SEED}/{case}")


def cases(short: int) -> range:
    """Numbers of the cases of a round."""
    return range(short * FACTOR)
