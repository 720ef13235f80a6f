"""What copying KV between a real engine and its offload tier takes is measured."""

from functools import partial

import anyio
import pytest

from agentrt.base.config import EngineConfig
from agentrt.lab.sim.copies import measure_copies

TINY_TOKEN_BYTES = 2 * 2 * 2 * 8 * 4  # two layers, keys and values, two heads of eight floats


def test_copies_of_a_real_engine_are_measured(tiny: EngineConfig) -> None:
    copies = anyio.run(partial(measure_copies, tiny, rounds=1, place="thread"))
    assert copies is not None
    assert copies.token_s > 0
    assert copies.token_bytes == pytest.approx(TINY_TOKEN_BYTES, rel=1e-4)
