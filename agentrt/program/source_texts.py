"""Source texts: the texts that the code of a program writes itself, whatever it is called with.

They are the constants of its function, of the functions of its module and the programs that it
names, and the texts of chats among its globals. Nothing of the program is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from agentrt.base.segments import Text
from agentrt.program.chat import Chat
from agentrt.program.program import Program
from agentrt.program.prompt_prefix import pieces_of

MOST_TEXTS = 512
MAX_CHARACTERS = 20_000


@lru_cache(maxsize=256)
def source_texts(fn: Any) -> frozenset[str]:
    """The texts in the source of a program's function."""
    found: set[str] = set()
    for text in _texts_of(fn, set()):
        if 0 < len(text) <= MAX_CHARACTERS:
            found.add(text)
        if len(found) >= MOST_TEXTS:
            break
    return frozenset(found)


def _texts_of(fn: Any, seen: set[int]) -> Iterator[str]:
    code = getattr(fn, "__code__", None)
    if not isinstance(code, CodeType) or id(code) in seen:
        return
    seen.add(id(code))
    for inner in _nested(code):
        for constant in inner.co_consts:
            parts = constant if isinstance(constant, tuple) else (constant,)
            yield from (one for one in parts if isinstance(one, str))
        for name in inner.co_names:
            yield from _texts_in(fn.__globals__.get(name), fn, seen)
    for cell in fn.__closure__ or ():
        try:
            yield from _texts_in(cell.cell_contents, fn, seen)
        except ValueError:
            continue  # a variable without a value yet


def _texts_in(value: Any, fn: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Chat):
        yield from (piece.text for piece in pieces_of(value) if isinstance(piece, Text))
    elif isinstance(value, Program):
        yield from _texts_of(value.fn, seen)
    elif isinstance(value, FunctionType) and value.__module__ == fn.__module__:
        yield from _texts_of(value, seen)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
