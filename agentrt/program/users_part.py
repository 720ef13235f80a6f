"""The part of a traceback that the user of the package can do something about."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from agentrt.base.errors import AgentrtError, InternalError
from agentrt.program.call_site import INNER


def users_part(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package and of event loops; whole if none is left."""
    return _outer_part(traceback) or traceback


def without_inner_frames(error: BaseException) -> BaseException:
    """The error with the user's part of its traceback and of its causes'.

    The traceback stays whole if the error comes from the inside and is none that the package
    raises for its users.

    Example:
        >>> from agentrt.base.errors import UsageError
        >>> without_inner_frames(UsageError("no such file"))
        UsageError('no such file')
    """
    if error.__cause__ is not None:
        without_inner_frames(error.__cause__)
    links = list(_links(error.__traceback__))
    is_told = isinstance(error, AgentrtError | TimeoutError)  # a passed limit is no fault
    is_told = is_told and not isinstance(error, InternalError)
    if is_told or (links and not _is_inner(links[-1])):
        return error.with_traceback(_outer_part(error.__traceback__))
    return error


def _outer_part(traceback: TracebackType | None) -> TracebackType | None:
    found: TracebackType | None = None
    for one in reversed([one for one in _links(traceback) if not _is_inner(one)]):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found


def _links(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_inner(one: TracebackType) -> bool:
    return one.tb_frame.f_code.co_filename.startswith(INNER)
