"""Text that a tool yields piece by piece; its result is all of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from functools import partial
from typing import Any, get_args, get_type_hints

from agentrt.base.errors import UsageError

OnText = Callable[[str], None]
"""Takes each text that a tool yields, on the event loop."""


class YieldedText:
    """The text that one attempt of a tool yields.

    Args:
        on_text: Takes each text.
        max_bytes: Limit on the result; a tool that has yielded more is closed.
    """

    def __init__(self, on_text: OnText, max_bytes: int) -> None:
        self._on_text = on_text
        self._left_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._texts: list[str] = []
        self._stopped = False

    def joined(self, make: Callable[[], Any], *, is_async: bool) -> Callable[[], Any]:
        """A function that gives the joined text of a generator, to be awaited if it is async."""
        return partial(self.collect if is_async else self.drain, make)

    async def collect(self, make: Callable[[], AsyncGenerator[str, None]]) -> str:
        """The joined text of an async generator, which is closed if this is cancelled."""
        async with aclosing(make()) as texts:
            async for text in texts:
                self._add(text)
                self._hand_on(text)
                if self._is_over:
                    break
        return "".join(self._texts)

    def drain(self, make: Callable[[], Generator[str, None, None]]) -> str:
        """The joined text of a generator, in a worker thread; closed when nothing more is taken."""
        with closing(make()) as texts:
            for text in texts:
                self._add(text)
                self._loop.call_soon_threadsafe(self._hand_on, text)
                if self._is_over:
                    break
        return "".join(self._texts)

    def stop(self) -> None:
        """Hand nothing more on, and close a generator in a thread when it next yields."""
        self._stopped = True

    @property
    def _is_over(self) -> bool:
        return self._stopped or self._left_bytes < 0

    def _add(self, text: Any) -> None:
        if not isinstance(text, str):
            raise TypeError(f"it yields {type(text).__name__}, and a tool yields text")
        self._texts.append(text)
        self._left_bytes -= len(text.encode(errors="surrogatepass"))

    def _hand_on(self, text: str) -> None:
        if not self._stopped:
            self._on_text(text)


def yields_text(fn: Callable[..., Any], *, name: str, where: str, process: bool) -> bool:
    """Whether a tool yields its result.

    Raises:
        UsageError: Something else than text is declared, or a process of its own.
    """
    if not (inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)):
        return False
    if process:
        raise UsageError(
            f"tool {name} yields its result, which a process of its own gives as a whole",
            hint="Return the joined text, or leave process=True out",
            where=where,
        )
    try:
        declared = get_args(get_type_hints(fn).get("return"))
    except NameError:  # a name defined later in the module
        declared = ()
    if declared and declared[0] not in (str, Any):
        raise UsageError(
            f"tool {name} yields {getattr(declared[0], '__name__', declared[0])}",
            hint="Yield str, or return a list",
            where=where,
        )
    return True
