"""Limit on the size of a tool's result, which may stand in prompts and in traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from agentrt.base.errors import ToolFailed
from agentrt.tools.workers import run_in_worker

MAX_RESULT_BYTES = 4 * 1024 * 1024
QUICK_BYTES = 64 * 1024
"""Results of that size are measured in a worker thread."""


async def check_result(value: Any, max_bytes: int, *, tool: str, where: str) -> None:
    """Refuse a result that is too large.

    Args:
        value: The result.
        max_bytes: Limit on its text, in bytes of UTF-8.
        tool: Name of the tool.
        where: `file:line` of the tool.

    Raises:
        ToolFailed: The result is larger.
    """
    size = text_bytes(value, min(max_bytes + 1, QUICK_BYTES))
    if size >= QUICK_BYTES:
        size = await run_in_worker(partial(text_bytes, value, max_bytes + 1), _nothing)
    if size > max_bytes:
        raise ToolFailed(
            f"{tool} gave a result of more than {max_bytes} bytes",
            tool=tool,
            hint="Give less, such as the part that matters, or raise @tool(max_result_bytes=...)",
            where=where,
        )


def text_bytes(value: Any, stop_at: int) -> int:
    """A lower bound of the bytes of a value's text, counted until it reaches `stop_at`."""
    size = 0
    todo = [value]
    seen: set[int] = set()  # a container may hold itself
    while todo and size < stop_at:
        here = todo.pop()
        size += 1
        if isinstance(here, str):
            size += len(here) if here.isascii() else len(here.encode(errors="surrogatepass"))
        elif isinstance(here, bytes | bytearray):
            size += len(here)
        elif not isinstance(here, int | float) and id(here) not in seen:
            seen.add(id(here))
            todo.extend(islice(_parts(here), stop_at - size))
    return size


def _parts(value: Any) -> Iterable[Any]:
    """Parts of a container or record; its own text contains theirs."""
    if isinstance(value, Mapping):
        return chain.from_iterable(value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if is_dataclass(value):
        return (getattr(value, field.name) for field in fields(value))
    return vars(value).values() if hasattr(type(value), "model_fields") else ()


def _nothing() -> None:
    return None
