"""Token budget of a step.

A step is `{request: scheduled tokens}` under a budget. There is no prefill phase and no decode
phase: decodes are scheduled first, then prompts in chunks (chunked prefill), in priority order.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from typing import Literal

from agentrt.base.ids import RequestId
from agentrt.kv_cache.node import TOKEN_BYTES

WaitCause = Literal["pages", "slots", "budget", "prefix", "decodes"]
"""Why a request waits: too few free pages, no free slot, no tokens left in the step's budget,
another sequence is computing the prefix that it needs, or more urgent decodes end first."""

BACKGROUND_TOKENS = 128
"""Most prefill tokens of background sequences in a step that also serves foreground ones."""

MIN_SHARED_TOKENS = 4
"""A prefix that another sequence is about to compute is waited for if it saves so many tokens."""


class TokenBudget:
    """Tokens of one step, granted request by request.

    Attributes:
        remaining_tokens: Tokens not granted yet.
        scheduled_tokens: Granted tokens by request, in the order of the batch.
        background_tokens: Tokens left for background prefills beside foreground work.
    """

    __slots__ = ("background_tokens", "remaining_tokens", "scheduled_tokens")

    def __init__(self, step_tokens: int) -> None:
        self.remaining_tokens = step_tokens
        self.background_tokens = BACKGROUND_TOKENS
        self.scheduled_tokens: dict[RequestId, int] = {}

    def grant(self, request_id: RequestId, wanted_tokens: int, max_tokens: int) -> int:
        """Grant up to `max_tokens` of the tokens wanted; returns all that the request has now."""
        granted = self.scheduled_tokens.get(request_id, 0)
        more = min(wanted_tokens - granted, max_tokens - granted, self.remaining_tokens)
        if more <= 0:
            return granted
        self.scheduled_tokens[request_id] = granted + more
        self.remaining_tokens -= more
        return granted + more

    def revoke(self, request_id: RequestId) -> None:
        """Return the tokens of a request that is not scheduled after all."""
        self.remaining_tokens += self.scheduled_tokens.pop(request_id, 0)


def prefix_owner(key: bytes, cached_tokens: int, prefilling: Rows[bytes]) -> int | None:
    """Index of a running prefill that computes the next tokens of `key` too; None for none.

    Args:
        key: Radix key of the waiting sequence.
        cached_tokens: Tokens of it that the radix tree has.
        prefilling: Radix keys of the running prefills.
    """
    wanted = cached_tokens + MIN_SHARED_TOKENS
    if len(key) // TOKEN_BYTES - 1 < wanted:
        return None
    start = key[: wanted * TOKEN_BYTES]
    return next((at for at, other in enumerate(prefilling) if other.startswith(start)), None)
