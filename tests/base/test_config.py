"""Settings of the engine: sizes of a step follow from the device unless they are given."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError


@pytest.mark.parametrize(
    ("device", "sizes"), [("cpu", (2048, 64, 512)), ("cuda", (8192, 256, 4096))]
)
def test_sizes_follow_from_the_device(device, sizes):
    config = EngineConfig(Path("model"), device=device).sized()
    assert (config.step_tokens, config.max_running, config.prefill_chunk_tokens) == sizes
    assert config.sized() == config


def test_given_sizes_are_kept():
    config = EngineConfig(Path("model"), device="cuda", step_tokens=7, max_running=3).sized()
    assert (config.step_tokens, config.max_running) == (7, 3)


def test_a_negative_size_is_refused():
    with pytest.raises(UsageError, match=r"step_tokens=-1\) is negative"):
        EngineConfig(Path("model"), step_tokens=-1).sized()
