"""A real engine for measurements: in its own process like in production, with random prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from random import Random

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import revive
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.process.backend import EmbeddedBackend, Placement
from agentrt.prompt import Codec
from agentrt.protocol.backend import Capabilities, GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import StepDone


class MeasuredEngine:
    """An engine that generates outputs of a fixed length; see `open_engine`.

    Args:
        backend: Backend that has started.
        seed: Seed of the prompts.
        ids: Token ids of the prompts.

    Attributes:
        capabilities: Capabilities of the engine.
    """

    def __init__(self, backend: EmbeddedBackend, seed: int, ids: range) -> None:
        self.capabilities: Capabilities = backend.capabilities
        self._backend = backend
        self._random = Random(seed)
        self._ids = ids
        self._serials = count(1)

    def draw(self, tokens: int) -> tuple[int, ...]:
        """A random prompt."""
        return tuple(self._random.choices(self._ids, k=tokens))

    def submit(self, prompt: tuple[int, ...], new_tokens: int) -> RequestId:
        """Submit a request for so many tokens."""
        serial = next(self._serials)
        self._backend.submit(
            GenerateRequest(
                RequestId(serial),
                RunId("measure"),
                NodeId(f"n{serial}"),
                "measure",
                TokenPrompt(prompt),
                SamplingParams(max_tokens=new_tokens, ignore_eos=True),
            )
        )
        return RequestId(serial)

    async def outputs(self, requests: int) -> AsyncIterator[StepDone]:
        """Step outputs, until so many requests have ended.

        Raises:
            AgentrtError: The engine or a request failed.
        """
        async for event in self._backend.events():
            if not isinstance(event, StepDone):
                raise revive(event.error)
            for end in event.ends:
                if end.error is not None:
                    raise revive(end.error)
            requests -= len(event.ends)
            yield event
            if requests == 0:
                return


@asynccontextmanager
async def open_engine(
    config: EngineConfig, seed: int = 0, *, place: Placement = "process"
) -> AsyncIterator[MeasuredEngine]:
    """Start an engine, and end it.

    Args:
        config: Settings of the engine.
        seed: Seed of the prompts.
        place: Where the engine runs.
    """
    backend = EmbeddedBackend(config, MonotonicClock(), place=place)
    backend.launch()
    try:
        size = Codec.load(config.model_path).vocab.size
        await backend.start()
        yield MeasuredEngine(backend, seed, range(size // 2, size))
    finally:
        await backend.aclose()
