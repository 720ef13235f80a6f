"""Tokens and tool calls that a `limits` block may still use."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.base.errors import BudgetExceeded, LimitExceeded
from agentrt.program.call_site import call_site


class Budget:
    """Tokens and tool calls that a block may still use.

    Args:
        tokens: Output tokens of all generations in the block; None sets no limit.
        calls: Tool calls in the block; None sets no limit.
        close: Whether each generation is cut to the tokens that are left, so that its output can
            be closed in time.
        stop: Ends the block with an error.
    """

    def __init__(
        self,
        tokens: int | None,
        calls: int | None,
        close: bool,
        stop: Callable[[LimitExceeded], None],
    ) -> None:
        self._tokens = tokens
        self._calls = calls
        self._close = close
        self._stop = stop
        self._used_tokens = 0
        self._reserved_tokens = 0
        self._used_calls = 0

    def grant_tokens(self, wanted: int) -> int:
        """Output tokens that a new generation may use, at most `wanted`.

        Raises:
            BudgetExceeded: No token is left.
        """
        if self._tokens is None:
            return wanted
        left = self._tokens - self._used_tokens - self._reserved_tokens
        if left < 1:
            raise BudgetExceeded(
                f"the budget of {self._tokens} tokens is used up",
                hint="Raise limits(tokens=...)",
                where=call_site(),
            )
        return min(left, wanted) if self._close else wanted

    def reserve_tokens(self, tokens: int) -> None:
        """Hold back what a generation may use, if its output can be cut to what is left."""
        self._reserved_tokens += tokens if self._close else 0

    def release_tokens(self, tokens: int) -> None:
        """Give back what was held back for a generation that has ended."""
        self._reserved_tokens -= tokens if self._close else 0

    def spend_tokens(self, tokens: int) -> None:
        """Count tokens that a generation of the block has produced; may end the block."""
        self._used_tokens += tokens
        if self._tokens is not None and self._used_tokens > self._tokens:
            self._stop(
                BudgetExceeded(
                    f"the block used {self._used_tokens} of {self._tokens} tokens",
                    hint="Raise limits(tokens=...), or use on_limit='close'",
                )
            )

    def count_call(self) -> None:
        """Count a tool call that is about to be made.

        Raises:
            BudgetExceeded: The calls of the block are used up.
        """
        if self._calls is not None and self._used_calls >= self._calls:
            raise BudgetExceeded(
                f"the budget of {self._calls} tool calls is used up",
                hint="Raise limits(calls=...)",
                where=call_site(),
            )
        self._used_calls += 1
