"""Answers in a Redis server, shared by the processes of several machines.

The server drops what is old, and what is used least if its `maxmemory-policy` says so. Scripts on
the server end and renew a lease only if it is still that of the holder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from agentrt.base.errors import NotInstalled, UsageError
from agentrt.runtime.response_cache.store import MAX_AGE_S, Found, StoreError, StoreStats

TIMEOUT_S = 1.0
"""Time for connecting, and for each answer of the server: a run does not wait for a dead one."""

_RESPONSE, _LEASE = "agentrt:response:", "agentrt:lease:"
_BATCH = 500
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end"
_RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) end"

T = TypeVar("T")


class RedisStore:
    """Answers in one database of a Redis server.

    Args:
        url: `redis://`, `rediss://` (TLS) or `unix://` address, as redis-py reads it.
        max_age_s: Time for which an answer is kept.

    Raises:
        NotInstalled: The client library is not installed.
        UsageError: The address is malformed.
    """

    def __init__(self, url: str, *, max_age_s: float = MAX_AGE_S) -> None:
        try:
            import redis
        except ModuleNotFoundError:
            raise NotInstalled(
                "a response cache in Redis needs its client library",
                hint="pip install 'agentrt[redis]'",
            ) from None
        self._errors = (redis.RedisError, OSError)
        self._max_age_s = max_age_s
        self.place = _without_password(url)
        try:
            self._client: Any = redis.Redis.from_url(
                url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
            )
        except ValueError as error:
            raise UsageError(
                f"{self.place} is no address of a Redis server: {error}",
                hint="Give redis://HOST:PORT/DATABASE",
            ) from None

    def find(self, key: str, holder: str, lease_s: float) -> Found:
        def find() -> Found:
            client, lease = self._client, _LEASE + key
            value = client.get(_RESPONSE + key)
            if value is not None:
                return Found(value)
            if not client.set(lease, holder, nx=True, px=_ms(lease_s)):
                return Found(is_leased=client.get(lease) == holder.encode())
            value = client.get(_RESPONSE + key)  # it may have come just before the lease
            if value is not None:
                client.eval(_RELEASE, 1, lease, holder)
            return Found(value, is_leased=value is None)

        return self._guarded(find)

    def put(self, key: str, value: bytes, holder: str) -> None:
        def put() -> None:
            with self._client.pipeline() as batch:
                batch.set(_RESPONSE + key, value, px=_ms(self._max_age_s))
                batch.eval(_RELEASE, 1, _LEASE + key, holder)
                batch.execute()

        self._guarded(put)

    def renew(self, keys: Sequence[str], holder: str, lease_s: float) -> None:
        def renew() -> None:
            with self._client.pipeline(transaction=False) as batch:
                for key in keys:
                    batch.eval(_RENEW, 1, _LEASE + key, holder, _ms(lease_s))
                batch.execute()

        self._guarded(renew)

    def release(self, key: str, holder: str) -> None:
        self._guarded(lambda: self._client.eval(_RELEASE, 1, _LEASE + key, holder))

    def remove(self, key: str) -> None:
        self._guarded(lambda: self._client.delete(_RESPONSE + key))

    def clear(self) -> int:
        def clear() -> int:
            dropped = sum(self._client.unlink(*names) for names in self._names(_RESPONSE))
            for names in self._names(_LEASE):
                self._client.unlink(*names)
            return int(dropped)

        return self._guarded(clear)

    def stats(self) -> StoreStats:
        def stats() -> StoreStats:
            answers = value_bytes = 0
            for names in self._names(_RESPONSE):
                with self._client.pipeline(transaction=False) as batch:
                    for name in names:
                        batch.strlen(name)
                    value_bytes += sum(batch.execute())
                answers += len(names)
            return StoreStats(self.place, answers, value_bytes)

        return self._guarded(stats)

    def close(self) -> None:
        with suppress(*self._errors):
            self._client.close()

    def _names(self, prefix: str) -> Iterator[list[bytes]]:
        """The keys with a prefix, some hundreds at a time; a server of others is not blocked."""
        names: list[bytes] = []
        for name in self._client.scan_iter(f"{prefix}*", count=_BATCH):
            names.append(name)
            if len(names) == _BATCH:
                yield names
                names = []
        if names:
            yield names

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except self._errors as error:
            raise StoreError(f"{self.place}: {error}") from None


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _without_password(url: str) -> str:
    """The address for people: it may be in a log."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"
