"""Errors of callbacks on a virtual loop, which asyncio logs and then forgets.

An engine that is simulated by callbacks would stop without a word, and programs wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentrt.testing.loop import VirtualTimeLoop


class CallbackErrors:
    """The first error that a callback of a loop raises.

    Args:
        loop: The loop.
        on_error: Called once, after the first error.
    """

    def __init__(self, loop: VirtualTimeLoop, on_error: Callable[[], object]) -> None:
        self._on_error = on_error
        self._first: BaseException | None = None
        loop.set_exception_handler(self._handle)

    def guard(self, on_idle: Callable[[float], bool]) -> Callable[[float], bool]:
        """The same callback before time moves on, whose errors are kept, too."""

        def guarded(until_s: float) -> bool:
            try:
                return on_idle(until_s)
            except Exception as error:
                self._keep(error)
                return True

        return guarded

    def raise_first(self) -> None:
        """Raise the first error, if there is one.

        Raises:
            Exception: The error of the callback.
        """
        if self._first is not None:
            raise self._first

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "handle" in context and isinstance(error, BaseException):
            self._keep(error)
        else:
            loop.default_exception_handler(context)

    def _keep(self, error: BaseException) -> None:
        if self._first is None:
            self._first = error
            self._on_error()
