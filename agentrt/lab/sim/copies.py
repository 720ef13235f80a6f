"""Measures the time of KV copies between an engine and its host.

The engine has memory for one prompt, and its host for two. Two prompts take turns, so that each is
loaded back, and its ledger has the time of that. On CUDA copies run beside the computation and a
ledger has the time of their launch alone: the result is too low there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from agentrt.base.config import EngineConfig
from agentrt.engine.process.backend import Placement
from agentrt.lab.sim.measured_engine import open_engine

PROMPT_TOKENS = 512
ROUNDS = 9
_HOST_BYTES = 1 << 28
_SPARE_PAGES = 2


@dataclass(frozen=True, slots=True)
class Copies:
    """Costs of a copy.

    Attributes:
        token_s: Seconds to copy the KV of a token.
        token_bytes: Memory of the KV of a token.
    """

    token_s: float
    token_bytes: float


async def measure_copies(
    config: EngineConfig, *, rounds: int = ROUNDS, place: Placement = "process"
) -> Copies | None:
    """Measure copies on this machine; None if computing is faster, so that nothing is copied back.

    Args:
        config: Settings of the engine; the memory of both tiers is set here.
        rounds: How often each prompt comes back.
        place: Where the engine runs.
    """
    pages = -(-PROMPT_TOKENS // config.page_tokens) + _SPARE_PAGES
    config = replace(config, kv_pages=pages, host_kv_bytes=_HOST_BYTES)
    found: list[float] = []
    async with open_engine(config, place=place) as engine:
        limits = engine.capabilities
        tokens = min(PROMPT_TOKENS, limits.window_tokens or PROMPT_TOKENS) - 2
        prompts = engine.draw(tokens), engine.draw(tokens)
        for turn in range(2 * (rounds + 1)):
            engine.submit(prompts[turn % 2], 1)
            async for done in engine.outputs(1):
                ledgers = [end.ledger for end in done.ends]
                found += [
                    one.kv_reload_s / one.cached_host_tokens
                    for one in ledgers
                    if one.cached_host_tokens
                ]
    if not found:
        return None
    return Copies(median(found), _HOST_BYTES / limits.host_kv_tokens)
