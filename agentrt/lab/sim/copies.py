"""Measures what copying KV between an engine and its host takes.

The engine runs as it does in production, in its own process, with memory for one prompt and a host
for two. Each comes back when the other has had its turn, and its account tells what that took. On
CUDA copies run beside computing and an account holds their launch alone: there it says too little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Literal

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import InternalError, revive
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import Ledger, StepDone

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
    config: EngineConfig, *, rounds: int = ROUNDS, place: Literal["process", "thread"] = "process"
) -> Copies | None:
    """Measure copies on this machine; None if computing is faster, so that nothing is copied back.

    Args:
        config: Settings of the engine; the memory of both tiers is set here.
        rounds: How often each prompt comes back.
        place: Where the engine runs.
    """
    size = config.page_tokens
    pages = -(-PROMPT_TOKENS // size) + _SPARE_PAGES
    config = replace(config, kv_pages=pages, host_kv_bytes=_HOST_BYTES)
    vocab = Codec.load(config.model_path).vocab.size
    random = Random(0)
    backend = EmbeddedBackend(config, MonotonicClock(), place=place)
    backend.launch()
    try:
        await backend.start()
        takes = backend.capabilities
        tokens = min(PROMPT_TOKENS, takes.window_tokens or PROMPT_TOKENS) - 2
        prompts = [tuple(random.choices(range(vocab // 2, vocab), k=tokens)) for _ in range(2)]
        found: list[float] = []
        for turn in range(2 * (rounds + 1)):
            ledger = await _asked(backend, turn, prompts[turn % 2])
            if ledger.cached_host_tokens:
                found.append(ledger.kv_reload_s / ledger.cached_host_tokens)
    finally:
        await backend.aclose()
    if not found:
        return None
    return Copies(median(found), _HOST_BYTES / takes.host_kv_tokens)


async def _asked(backend: EmbeddedBackend, serial: int, prompt: tuple[int, ...]) -> Ledger:
    """The account of one generation."""
    request_id = RequestId(serial)
    backend.submit(
        GenerateRequest(
            request_id,
            RunId("copies"),
            NodeId(f"n{serial}"),
            "copies",
            TokenPrompt(prompt),
            SamplingParams(max_tokens=1, ignore_eos=True),
        )
    )
    async for event in backend.events():
        if not isinstance(event, StepDone):
            raise revive(event.error)
        for end in event.ends:
            if end.error is not None:
                raise revive(end.error)
            return end.ledger
    raise InternalError("an engine stopped telling without a word")
