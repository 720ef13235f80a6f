"""The room of a server, learned from its load: how much may be with it, and its KV memory."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.remote.admission.engine_load import EngineCapacity, EngineLoad
from agentrt.remote.admission.server_room import (
    FIRST_REQUESTS,
    MOST_PAUSE_LOOKS,
    REMEMBERED_LOOKS,
    ServerRoom,
)


def test_a_queue_at_the_server_shows_what_it_serves_at_once():
    room = ServerRoom()
    room.note_load(EngineLoad(running=8, waiting=24), in_flight=32)
    assert room.requests == 8


def test_a_server_that_keeps_up_gets_twice_as_many_and_later_a_few_more():
    room = ServerRoom()
    room.note_load(EngineLoad(running=32, waiting=0), in_flight=32)
    assert room.requests == 2 * FIRST_REQUESTS
    room.note_load(EngineLoad(running=40, waiting=24), in_flight=64)
    assert room.requests == 40
    room.note_load(EngineLoad(running=40, waiting=0), in_flight=40)
    assert room.requests == 42.5


def test_a_room_that_is_not_used_stays():
    room = ServerRoom()
    room.note_load(EngineLoad(running=3, waiting=0), in_flight=3)
    assert room.requests == FIRST_REQUESTS
    room.note_load(EngineLoad(running=3, waiting=0), in_flight=32)
    assert room.requests == FIRST_REQUESTS, "those that it has not seen yet prove nothing"


def test_slots_that_others_take_are_left_to_them():
    room = ServerRoom()
    room.note_capacity(EngineCapacity(slots=4))
    room.note_load(EngineLoad(running=4, waiting=1), in_flight=2)
    assert room.requests == 1
    room.note_load(EngineLoad(running=2, waiting=0), in_flight=2)
    assert room.requests == 4


def test_kv_that_others_hold_is_not_counted_on():
    room = ServerRoom()
    load = EngineLoad(running=4, waiting=0, kv_share=0.5, kv_tokens=1000)
    room.note_load(load, in_flight=4)
    assert room.kv_tokens == 1000
    room.note_load(load, in_flight=1)
    assert room.kv_tokens == 1000 * (1 - 0.5 * 3 / 4)


def test_a_server_that_shows_nothing_is_not_held_back():
    room = ServerRoom()
    room.note_unknown()
    assert room.requests == math.inf
    room.note_capacity(EngineCapacity(slots=2))
    room.note_unknown()
    assert room.requests == 2


def test_a_server_that_is_seen_again_has_the_room_that_it_had():
    """Behind an outage; one of which nothing was known has that of a first look."""
    room, new = ServerRoom(), ServerRoom()
    room.note_load(EngineLoad(running=3, waiting=2), in_flight=5)
    for one in (room, new):
        one.note_unknown()
        one.note_load(EngineLoad(running=1, waiting=0), in_flight=1)
    assert room.requests == 3
    assert new.requests == FIRST_REQUESTS


def test_a_look_between_two_requests_makes_no_room_smaller():
    room = ServerRoom()
    room.note_load(EngineLoad(running=2, waiting=6), in_flight=8)
    assert room.requests == 2
    room.note_load(EngineLoad(running=1, waiting=1), in_flight=2)
    assert room.requests == 2, "one has ended, and the next one has not begun"
    for _ in range(REMEMBERED_LOOKS):
        room.note_load(EngineLoad(running=1, waiting=1), in_flight=2)
    assert room.requests == 1, "it computes one at a time now"


def test_probes_in_vain_become_rare():
    room = ServerRoom()
    room.note_load(EngineLoad(running=2, waiting=6), in_flight=8)
    probes = []
    for look in range(200):
        full = room.requests > 2
        probes += [look] if full else []
        room.note_load(EngineLoad(running=2, waiting=float(full)), in_flight=int(room.requests))
    gaps = [after - before for before, after in itertools.pairwise(probes)]
    assert gaps[:3] == sorted(gaps[:3])
    assert max(gaps) <= MOST_PAUSE_LOOKS + 2
    assert len(probes) < 15


def test_probes_that_find_room_go_on():
    room = ServerRoom()
    room.note_load(EngineLoad(running=16, waiting=6), in_flight=22)
    before = room.requests
    for _ in range(16):
        most = int(room.requests)
        room.note_load(EngineLoad(running=most, waiting=0), in_flight=most)
    assert room.requests > 1.8 * before


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.floats(0, 1)),
        max_size=20,
    ),
    st.integers(0, 64),
    st.sets(st.integers(0, 19)),
)
def test_one_request_always_has_room(looks, slots, outages):
    room = ServerRoom()
    room.note_capacity(EngineCapacity(slots))
    for at, (running, waiting, in_flight, share) in enumerate(looks):
        if at in outages:
            room.note_unknown()
        room.note_load(EngineLoad(running, waiting, share, 4096.0), in_flight)
        assert room.requests >= 1
        assert 0 < room.kv_tokens <= 4096
