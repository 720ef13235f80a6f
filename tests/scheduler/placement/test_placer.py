"""The placer: the account of work, and the map behind it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import InternalError
from agentrt.scheduler.placement.placer import Placer
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts

COSTS = TokenCosts(prefill_s=0.001, decode_s=0.01)
SHARED = b"s" * 4000


def fleet(*workers: str) -> Placer:
    placer = Placer(COSTS)
    for worker in workers or ("a", "b"):
        placer.add(worker)
    return placer


def prompt(text: bytes, run_id: str = "", rest_s: float = 0.0) -> PlacementRequest:
    return PlacementRequest(text, len(text) / 4, 100.0, run_id, rest_s)


def worker_of(placer: Placer, request: PlacementRequest) -> tuple[str, str]:
    found = placer.place(request)
    assert found is not None
    return found.worker, found.reason


def test_work_is_counted_until_it_ends() -> None:
    placer = fleet()
    placer.send(1, prompt(SHARED), "a")
    load = placer.workers["a"]
    assert load.in_flight_s == pytest.approx(1.0 + 1.0)
    placer.send(2, prompt(SHARED), "a")
    assert load.in_flight_s == pytest.approx(2.0 + 1.0, abs=0.02), "its prompt is known there"
    placer.computed(1)
    assert load.in_flight_s == pytest.approx(2.0, abs=0.02)
    placer.end(1)
    placer.end(1)
    placer.end(2)
    assert load.in_flight_s == pytest.approx(0.0)
    placer.send(3, prompt(SHARED), "a")
    with pytest.raises(InternalError, match="already"):
        placer.send(3, prompt(SHARED), "a")


def test_siblings_follow_the_first_until_its_worker_is_overloaded() -> None:
    placer = fleet("a", "b", "c")
    went = []
    for number in range(12):
        request = prompt(SHARED + bytes([number]) * 400)
        found = placer.place(request)
        assert found is not None
        placer.send(number, request, found.worker)
        went.append((found.worker, found.reason))
    assert went[:4] == [("a", "spread"), ("a", "prefix"), ("a", "prefix"), ("b", "overload")]
    assert [reason for _, reason in went].count("overload") == 2, "the prefix is copied, twice"
    assert {worker for worker, _ in went} == {"a", "b", "c"}


def test_an_output_is_part_of_what_a_worker_holds() -> None:
    placer = fleet()
    placer.send(1, prompt(SHARED), "b")
    placer.end(1, output_key=b"o" * 400)
    assert placer.prefixes.match(SHARED + b"o" * 400) == {"b": 4352}
    assert worker_of(placer, prompt(SHARED + b"o" * 400)) == ("b", "prefix")


def test_a_worker_that_was_started_again_holds_nothing() -> None:
    placer = fleet()
    placer.send(1, prompt(SHARED), "b")
    placer.end(1)
    placer.forget("b")
    assert worker_of(placer, prompt(SHARED))[1] == "spread"


def test_a_report_of_fewer_cached_tokens_corrects_the_map() -> None:
    placer = fleet()
    for number, text in enumerate((b"o" * 4000, SHARED)):
        placer.send(number, prompt(text), "a")
        placer.end(number)
    placer.send(7, prompt(SHARED), "a")
    placer.end(7, cached_tokens=0)
    assert placer.prefixes.match(b"o" * 4000) == {}


def test_promised_work_moves_with_its_run() -> None:
    placer = fleet()
    placer.send(1, prompt(SHARED, "run", rest_s=52.0), "a")
    assert placer.workers["a"].resident_s == pytest.approx(50.0)
    placer.send(2, prompt(SHARED, "run", rest_s=32.0), "b")
    assert placer.workers["a"].resident_s == 0.0
    assert placer.workers["b"].resident_s == pytest.approx(30.0)
    placer.end_run("run")
    placer.end_run("run")
    assert placer.workers["b"].resident_s == 0.0


def test_a_removed_worker_takes_its_account_along() -> None:
    placer = fleet()
    placer.send(1, prompt(SHARED, "run", rest_s=5.0), "a")
    placer.remove("a")
    placer.end(1, cached_tokens=0, output_key=b"x" * 64)
    placer.end_run("run")
    assert worker_of(placer, prompt(SHARED, "run")) == ("b", "only")
    placer.add("a")
    assert placer.workers["a"].in_flight_s == 0.0


events = st.lists(
    st.tuples(
        st.sampled_from(["send", "computed", "end", "end_run", "forget", "drain", "fail"]),
        st.integers(0, 9),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(events)
def test_the_account_is_empty_once_all_has_ended(todo: list[tuple[str, int]]) -> None:
    placer = fleet("a", "b", "c")
    for number, (what, which) in enumerate(todo):
        name = "abc"[which % 3]
        if what == "send":
            request = prompt(SHARED[: 400 * which] + bytes([which]) * 300, f"r{which % 4}", 3.0)
            found = placer.place(request)
            if found is not None:
                assert placer.workers[found.worker].eligible
                placer.send(number, request, found.worker)
        elif what == "computed":
            placer.computed(which)
        elif what == "end":
            placer.end(which, cached_tokens=100.0 * which, output_key=b"o" * 64 * which)
        elif what == "end_run":
            placer.end_run(f"r{which % 4}")
        elif what == "forget":
            placer.forget(name)
        elif what == "drain":
            placer.workers[name].draining ^= True
        else:
            placer.workers[name].healthy ^= True
        assert all(load.in_flight_s >= -1e-9 for load in placer.workers.values())
    for number in range(len(todo)):
        placer.end(number)
    for number in range(4):
        placer.end_run(f"r{number}")
    for load in placer.workers.values():
        assert load.in_flight_s == pytest.approx(0.0, abs=1e-9)
        assert load.resident_s == pytest.approx(0.0, abs=1e-9)
