"""What the embedded engine tells of its memory."""

from dataclasses import replace
from typing import Any

import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.engine.core import EngineCore


@pytest.mark.parametrize("host_kv_bytes", [0, 1 << 20])
def test_it_tells_how_many_tokens_each_tier_holds(tiny: EngineConfig, host_kv_bytes: int) -> None:
    config = replace(tiny, kv_pages=40, host_kv_bytes=host_kv_bytes)
    core: Any = EngineCore(config, MonotonicClock())
    takes = core.capabilities
    assert takes.kv_tokens == 40 * config.page_tokens
    host_pages = core.executor.offload.tier.pool.total_pages if host_kv_bytes else 0
    assert takes.host_kv_tokens == host_pages * config.page_tokens
    assert bool(takes.host_kv_tokens) == bool(host_kv_bytes)
