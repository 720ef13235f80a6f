"""Pause of garbage collection while much is made that stays.

A hundred thousand new lists and tuples start collections that walk all of an imported torch, for
nothing: half of the time of reading a tokenizer (measured).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_pause() -> Iterator[None]:
    """No collection in the block, if nothing else in the process starts one.

    Where several threads pause at once, collection goes on when the first one of them ends.

    Example:
        >>> with gc_pause():
        ...     gc.isenabled()
        False
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
