"""The load of an engine as its runtime sees it."""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.runtime.model_role import ModelRole
from agentrt.scheduler import State


@record
class RoleLoad:
    """The load of one engine at one instant.

    Attributes:
        running: Requests that it computes.
        waiting: Requests in its queue, and generations that admission control holds back.
        kv_share: Share of its KV cache that requests hold, 0 to 1; what can be evicted is free.
        kv_tokens: Size of its KV cache in tokens; 0 if unknown.
        kv_bytes: The same in bytes; 0 if unknown.
        slots: Requests that it computes at once; 0 if unknown.
    """

    running: int
    waiting: int
    kv_share: float
    kv_tokens: int
    slots: int
    kv_bytes: int


def load_of(state: State, engine: ModelRole) -> RoleLoad:
    """The load of an engine.

    Args:
        state: State of the scheduler.
        engine: The engine.
    """
    takes = engine.capabilities
    sent = [node for node in state.requests.values() if node.model == engine.role]
    running = sum([node.started_at_s is not None for node in sent])
    held = sum([node.model == engine.role for run in state.admission.held for node in run.held])
    kv_share = 0.0
    if running and takes.kv_tokens and takes.page_tokens:
        free_pages = state.free_pages + state.evictable_pages
        kv_share = 1.0 - free_pages * takes.page_tokens / takes.kv_tokens
    return RoleLoad(
        running,
        len(sent) - running + held,
        min(1.0, max(0.0, kv_share)),
        takes.kv_tokens,
        takes.slots,
        takes.kv_bytes,
    )
