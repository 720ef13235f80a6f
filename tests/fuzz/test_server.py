"""Malformed bodies and odd HTTP hurt neither the server, its engine, nor a client in order."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.fuzz.raw_http import Exchange, post
from tests.fuzz.rounds import cases
from tests.fuzz.server_bodies import bombard, drawn, fault_of, hostile
from tests.fuzz.server_rig import Served, canary, served

pytestmark = pytest.mark.model
SHORT = 150
MOST_GROWTH_MB = 600
"""Beyond what is kept of one body of the largest size, for each client."""


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


def test_a_round_of_bodies_leaves_the_server_as_it_was(server: Served) -> None:
    asyncio.run(bombard(server.port, drawn(20)))  # what reads bodies has started
    server.ask_last()
    files, rss_mb = server.files(), server.rss_mb()
    with canary(server.port, 0.5) as beside:
        found = asyncio.run(bombard(server.port, drawn(len(cases(SHORT)))))
    assert found.faults == []
    assert {200, 400} <= found.statuses.keys()
    assert beside.took_s
    assert beside.lost == 0
    assert server.ask_last() == (True, True)
    assert server.files() <= files + 1  # a kept connection
    grown = zip(server.rss_mb(), rss_mb, strict=True)
    assert max(now - before for now, before in grown) < MOST_GROWTH_MB


def test_hostile_bodies_at_once_leave_the_server_as_it_was(server: Served) -> None:
    with canary(server.port, 0.5) as beside:
        found = asyncio.run(bombard(server.port, hostile()))
    assert found.faults == []
    assert found.statuses.keys() == {400}
    assert beside.lost == 0
    assert server.ask_last() == (True, True)


def test_no_page_is_leaked_and_no_fault_logged(server: Served) -> None:
    """The last test of the server, which it ends."""
    server.ask_last()
    assert server.faults() == ""
    assert server.end() == 0
    assert server.leaked_pages == 0


REFUSAL = json.dumps({"error": {"message": "no"}}).encode()


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 400 Bad\r\n\r\n" + REFUSAL, ""),
        (b"HTTP/1.1 500 Oh\r\n\r\n" + REFUSAL, "an error of the server"),
        (b"HTTP/1.1 400 Bad\r\n\r\n{}", "another form"),
        (b"HTTP/1.1 400 Bad\r\n\r\n" + REFUSAL.replace(b"no", b"x.py"), "internals"),
        (b"HTTP/1.1 400 Bad\r\n\r\n" + REFUSAL.replace(b"no", b"x" * 9_000), "bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n", "half an answer"),
        (b"", "0 answers"),
    ],
)
def test_faults_of_answers_are_seen(answer: bytes, fault: str) -> None:
    seen = fault_of(post(b"{}"), answer)
    assert (fault in seen) if fault else not seen
    assert fault_of(Exchange("half", b"", "leave"), answer) == ""
