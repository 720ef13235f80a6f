"""Place of the response cache: a file, a Redis server, or none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.base.user_folders import state_folder
from agentrt.runtime.response_cache.store import ResponseStore

VARIABLE = "AGENTRT_RESPONSE_CACHE"
FILE_NAME = "responses.sqlite"
OFF = ("off", "0", "none")
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


def response_store(place: str | None, environment: Mapping[str, str]) -> ResponseStore | None:
    """The store at a place; None if the cache is switched off. Nothing is opened yet.

    Args:
        place: Path of a file, address of a Redis server, or "off". None takes that of
            `AGENTRT_RESPONSE_CACHE`, or else `responses.sqlite` in the user's state folder.
        environment: Environment variables.

    Raises:
        UsageError: The address is of no kind that is known.
        NotInstalled: The client library for a Redis server is not installed.
    """
    named = place if place is not None else environment.get(VARIABLE, "").strip()
    if named.lower() in OFF:
        return None
    if named.startswith(REDIS_SCHEMES):
        from agentrt.runtime.response_cache.redis_store import RedisStore

        return RedisStore(named)
    if "://" in named:
        scheme = named.partition("://")[0]
        raise UsageError(
            f"a response cache at {scheme}:// is of no kind that is known",
            hint="Give a path, redis://HOST:PORT/DATABASE, or off",
        )
    from agentrt.runtime.response_cache.sqlite_store import SqliteStore

    path = Path(named).expanduser() if named else state_folder(environment) / FILE_NAME
    return SqliteStore(path)
