"""Stores of the response cache: values, leases and bounds, in a file and on a real Redis server."""

import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.runtime.response_cache.location import response_store
from agentrt.runtime.response_cache.sqlite_store import SqliteStore
from agentrt.runtime.response_cache.store import Found, ResponseStore, StoreError
from tests.runtime.redis_server import free_port, redis_server

NOW_S = 1_000_000.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(free_port(), tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ResponseStore]:
    place = str(tmp_path / "new" / "responses.sqlite")
    if request.param == "redis":
        place = request.getfixturevalue("redis_url")
    made = response_store(place, {})
    assert made is not None
    yield made
    made.clear()
    made.close()


def test_the_first_miss_gets_a_lease_and_others_wait(store: ResponseStore) -> None:
    assert store.find("k", "one", 60.0) == Found(is_leased=True)
    assert store.find("k", "one", 60.0) == Found(is_leased=True), "its own lease"
    assert store.find("k", "other", 60.0) == Found()
    assert store.find("j", "other", 60.0) == Found(is_leased=True), "another key"
    store.put("k", b"\x00value", "one")
    assert store.find("k", "other", 60.0) == Found(b"\x00value")
    store.remove("k")
    assert store.find("k", "other", 60.0) == Found(is_leased=True), "the value ended the lease"


def test_a_lease_ends_by_its_holder_alone(store: ResponseStore) -> None:
    store.find("k", "one", 60.0)
    store.release("k", "other")
    assert store.find("k", "other", 60.0) == Found()
    store.release("k", "one")
    assert store.find("k", "other", 60.0) == Found(is_leased=True)


def test_a_lease_that_is_over_is_given_to_the_next(store: ResponseStore) -> None:
    store.find("k", "crashed", 60.0)
    store.renew(["k"], "other", 1e-3)
    assert store.find("k", "other", 60.0) == Found(), "renewed by another one"
    store.renew(["k"], "crashed", 0.0)
    while store.find("k", "other", 60.0) == Found():
        pass  # a server's clock counts in milliseconds
    assert store.find("k", "crashed", 60.0) == Found()


def test_all_of_it_can_be_dropped_and_counted(store: ResponseStore) -> None:
    for at in range(3):
        store.put(f"k{at}", b"12345", "one")
    store.find("k9", "one", 60.0)
    found = store.stats()
    assert (found.answers, found.value_bytes) == (3, 15)
    assert found.place == store.place
    assert store.clear() == 3
    assert store.stats().answers == 0
    assert store.find("k9", "other", 60.0) == Found(is_leased=True)


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "responses.sqlite"
    store = SqliteStore(path)
    assert store.stats().answers == 0
    assert not path.exists(), "looking makes nothing"
    store.put("k", b"1", "one")
    for one in (path, *path.parent.glob("*-wal")):
        assert stat.S_IMODE(os.stat(one).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    store.close()


def test_answers_used_longest_ago_are_dropped_first(tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteStore(tmp_path / "r.sqlite", max_bytes=1000, unix_s=clock)
    for at in range(10):
        clock.now_s += 100.0
        store.put(f"k{at}", bytes(100), "one")
    clock.now_s += 100.0
    assert store.find("k0", "one", 1.0).value is not None  # used now
    for at in range(10, 13):
        clock.now_s += 100.0
        store.put(f"k{at}", bytes(100), "one")
    assert store.stats().value_bytes <= 1000
    kept = {at for at in range(13) if store.find(f"k{at}", "one", 1.0).value is not None}
    assert kept == {0, *range(4, 13)}
    store.put("large", bytes(600), "one")
    assert store.find("large", "one", 1.0).value is None, "it would displace the others"
    store.close()


def test_old_answers_are_not_found_and_dropped(tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteStore(tmp_path / "r.sqlite", max_bytes=6400, max_age_s=50.0, unix_s=clock)
    store.put("k", bytes(200), "one")
    clock.now_s += 49.0
    assert store.find("k", "one", 1.0).value is not None
    clock.now_s += 2.0
    assert store.find("k", "one", 1.0) == Found(is_leased=True)
    store.put("other", bytes(200), "one")
    assert store.stats().answers == 1
    store.close()


def test_a_cache_that_is_damaged_is_moved_aside_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "r.sqlite"
    store = SqliteStore(path)
    store.put("k", b"1", "one")
    store.close()
    damaged = path.read_bytes()[:100] + b"no pages, " * 2000
    path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING):
        store.put("k", b"1", "one")
    assert store.find("k", "one", 1.0).value == b"1"
    (line,) = caplog.messages
    assert "begins anew" in line
    (aside,) = tmp_path.glob("r.sqlite.broken-*")
    assert aside.read_bytes() == damaged
    store.close()


def test_a_file_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    store = SqliteStore(path)
    store.put("k", b"1", "one")
    store.close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="later agentrt"):
        store.find("k", "one", 1.0)


@pytest.mark.parametrize("kind", ["text", "database"])
def test_a_file_of_another_program_is_left_alone(tmp_path: Path, kind: str) -> None:
    """The path is a mistake, and not the file."""
    path = tmp_path / "history"
    if kind == "text":
        path.write_text("root:x:0:0:root:/root:/bin/sh\n" * 9)
    else:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE visits (url TEXT)")
        database.close()
    path.chmod(0o644)
    before = path.read_bytes()
    store = SqliteStore(path)
    for use in (store.stats, store.clear, lambda: store.put("k", b"1", "one")):
        with pytest.raises(StoreError, match="no response cache"):
            use()
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_made_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        SqliteStore(tmp_path / "file" / "r.sqlite").find("k", "one", 1.0)


def test_a_server_that_is_gone_is_an_error_of_the_store(tmp_path: Path) -> None:
    port = free_port()
    with redis_server(port, tmp_path) as url:
        store = response_store(url.replace("//", "//:secret@").replace(":secret@", ""), {})
        assert store is not None
        store.put("k", b"1", "one")
    with pytest.raises(StoreError, match=str(port)):
        store.find("k", "one", 1.0)
    store.close()


def test_no_password_is_shown() -> None:
    pytest.importorskip("redis")
    store = response_store("redis://user:secret@127.0.0.1:1/3", {})
    assert store is not None
    assert store.place == "redis://127.0.0.1:1/3"


def test_places(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    found = response_store(None, state)
    assert found is not None
    assert found.place == str(tmp_path / "agentrt" / "responses.sqlite")
    assert response_store("off", {}) is None
    assert response_store(None, {"AGENTRT_RESPONSE_CACHE": "off"}) is None
    named = response_store(None, {"AGENTRT_RESPONSE_CACHE": str(tmp_path / "r")})
    assert named is not None
    assert named.place == str(tmp_path / "r")
    with pytest.raises(UsageError, match="mysql://"):
        response_store("mysql://user:secret@host", {})
