"""`BackendLayer`: a backend that passes everything on, for others to change a part of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import (
    Backend,
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.step_output import BackendEvent


class BackendLayer:
    """A layer over an engine.

    Args:
        backend: The engine.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def capabilities(self) -> Capabilities:
        """Features of the engine."""
        return self._backend.capabilities

    @property
    def count_tokens(self) -> Callable[[str], int] | None:
        """The function that counts tokens, of an engine that has its own; else None."""
        return getattr(self._backend, "count_tokens", None)

    async def start(self) -> None:
        """Start the engine."""
        await self._backend.start()

    def submit(self, request: GenerateRequest) -> None:
        """Submit a request."""
        self._backend.submit(request)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to a prompt."""
        self._backend.fill_hole(request_id, fill)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Update the scheduling info of requests."""
        self._backend.update(updates)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """Stop a request."""
        self._backend.cancel(request_id, reason)

    def hint(self, hint: PrefixHint) -> None:
        """Give a hint about a prefix."""
        self._backend.hint(hint)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Compile constraints ahead."""
        self._backend.prewarm(constraints)

    def events(self) -> AsyncIterator[BackendEvent]:
        """All events of the engine, in order."""
        return self._backend.events()

    async def aclose(self) -> None:
        """End the engine."""
        await self._backend.aclose()
