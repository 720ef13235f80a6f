"""The part of a traceback that the user of the package can do something about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import anyio

_INNER = tuple(
    str(Path(file).resolve().parent) + "/"
    for file in (Path(__file__).parent, asyncio.__file__, anyio.__file__)
)


def users_part(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package and of event loops; whole if none is left."""
    kept = [one for one in _links(traceback) if not _is_inner(one)]
    found: TracebackType | None = None
    for one in reversed(kept):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found or traceback


def _links(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_inner(one: TracebackType) -> bool:
    return one.tb_frame.f_code.co_filename.startswith(_INNER)
