"""`agentrt cache`: the response cache of this user, or the one that the environment names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from agentrt.base.errors import UsageError

if TYPE_CHECKING:
    from agentrt.runtime.response_cache.store import ResponseStore

T = TypeVar("T")

cache = typer.Typer(help="Answers kept for equal requests.", no_args_is_help=True)

NO_CACHE = "The response cache is switched off (AGENTRT_RESPONSE_CACHE)\n"


@cache.command("stats")
def stats(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Show how many answers are kept, and where."""
    store = _store()
    if store is None:
        sys.stdout.write("null\n" if as_json else NO_CACHE)
        return 0
    found = _on(store, store.stats)
    if as_json:
        fields = {name: getattr(found, name) for name in ("place", "answers", "value_bytes")}
        sys.stdout.write(json.dumps(fields) + "\n")
    else:
        answers = _answers(found.answers)
        sys.stdout.write(f"{answers}, {found.value_bytes} bytes in {found.place}\n")
    return 0


@cache.command("clear")
def clear() -> int:
    """Drop all answers."""
    store = _store()
    if store is None:
        sys.stdout.write(NO_CACHE)
        return 0
    sys.stdout.write(f"dropped {_answers(_on(store, store.clear))} of {store.place}\n")
    return 0


def _answers(count: int) -> str:
    return f"{count} answer{'' if count == 1 else 's'}"


def _store() -> ResponseStore | None:
    from agentrt.runtime.response_cache.location import response_store

    return response_store(None, os.environ)


def _on(store: ResponseStore, work: Callable[[], T]) -> T:
    """Work on a store, and close it.

    Raises:
        UsageError: The store cannot be used.
    """
    from agentrt.runtime.response_cache.store import StoreError

    try:
        return work()
    except StoreError as error:
        raise UsageError(
            f"the response cache cannot be used: {error}",
            hint="look at AGENTRT_RESPONSE_CACHE, and at what it names",
        ) from None
    finally:
        store.close()
