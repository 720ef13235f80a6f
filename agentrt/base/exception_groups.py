"""The single errors of a group of exceptions."""

from __future__ import annotations

from collections.abc import Iterator


def root_of(error: BaseException) -> BaseException:
    """The first single error of a group, or the error itself."""
    return next(leaves(error))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The single errors of a group, in order."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error
