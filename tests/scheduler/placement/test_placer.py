"""The placer: the account of work, and the map behind it."""

from dataclasses import replace
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import InternalError
from agentrt.scheduler.placement.placer import OWN_ANSWERS, RECENT_S, Placer
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts

COSTS = TokenCosts(prefill_s=0.001, decode_s=0.01)
SHARED = b"s" * 4000


def fleet(*workers: str) -> Placer:
    placer = Placer(COSTS)
    for worker in workers or ("a", "b"):
        placer.add(worker)
    return placer


def prompt(text: bytes, run_id: str = "") -> PlacementRequest:
    return PlacementRequest(text, len(text) / 4, 100.0, run_id)


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
    assert went[:3] == [("a", "spread"), ("a", "prefix"), ("b", "overload")]
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
    placer.end(7, cached_share=0.0)
    assert placer.prefixes.match(b"o" * 4000) == {}


def test_a_whole_hit_confirms_the_map_whatever_a_token_is_long() -> None:
    placer = fleet()
    wide = PlacementRequest(SHARED, prompt_tokens=len(SHARED) / 40, output_tokens=1.0)
    for number in range(2):
        placer.send(number, wide, "a")
        placer.end(number, cached_share=float(number))
    assert placer.prefixes.match(SHARED) == {"a": 3968}


def test_work_of_late_fades_by_what_the_fleet_is_sent() -> None:
    placer = fleet()
    placer.send(1, prompt(SHARED), "a")
    placer.end(1)
    assert placer.workers["a"].recent_s == pytest.approx(2.0)
    for number in range(2, 9):
        placer.send(number, prompt(bytes([number]) * 4000), "b")
        placer.end(number)
    assert placer.workers["a"].recent_s == pytest.approx(2.0 * exp(-14.0 / (2 * RECENT_S)))


def test_a_fork_stays_with_its_prefix_and_a_fan_spreads() -> None:
    placer = fleet("a", "b", "c", "d")
    placer.send(0, prompt(SHARED, "run"), "b")
    placer.end(0)
    went = []
    for number in range(1, 101):
        request = prompt(SHARED + number.to_bytes(64), "run")
        found = placer.place(request)
        assert found is not None
        placer.send(number, request, found.worker)
        went.append(found.worker)
    assert set(went[:6]) == {"b"}
    shares = [went.count(worker) for worker in "abcd"]
    assert sum(shares) == 100
    assert min(shares) > 15


def test_the_account_of_a_run_ends_with_its_requests() -> None:
    placer = fleet()
    for number in range(40):
        placer.send(number, prompt(SHARED, "run"), "a")
        placer.end(number)
    assert worker_of(placer, prompt(SHARED, "run")) == ("a", "prefix")


def test_a_removed_worker_takes_its_account_along() -> None:
    placer = fleet()
    placer.send(1, prompt(SHARED, "run"), "a")
    placer.remove("a")
    placer.end(1, cached_share=0.0, output_key=b"x" * 64)
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
            request = prompt(SHARED[: 400 * which] + bytes([which]) * 300, f"r{which % 4}")
            found = placer.place(request)
            if found is not None:
                assert placer.workers[found.worker].eligible
                placer.send(number, request, found.worker)
        elif what == "computed":
            placer.computed(which)
        elif what == "end":
            placer.end(which, cached_share=which / 10, output_key=b"o" * 64 * which)
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


def answered(placer: Placer, worker: str, slowness: float, count: int, at_s: float = 0.0) -> float:
    """A worker answers some requests of new text, one after the other; returns the last instant."""
    for number in range(count):
        text = f"{worker} {number} ".encode() * 100
        placer.send(number, prompt(text), worker, at_s)
        at_s += slowness * COSTS.work_s(len(text) / 4, 100)
        placer.end(number, now_s=at_s, output_tokens=100.0)
    return at_s


def test_a_prefix_is_worth_more_at_a_slow_server() -> None:
    """Ten times the time of its tokens: a wait that is too long elsewhere is not there."""
    kept = {}
    for slowness in (1.0, 10.0):
        placer = fleet()
        at_s = max(answered(placer, one, slowness, 2 * OWN_ANSWERS) for one in "ab")
        placer.send(900, prompt(SHARED), "a", at_s)
        placer.end(900, now_s=at_s + slowness * 2, output_tokens=100.0)
        placer.workers["a"].room = 0.0
        late = replace(prompt(SHARED), waited_s=5.0)
        found = placer.place(late)
        assert found is not None
        kept[slowness] = found.worker
    assert kept == {1.0: "b", 10.0: "a"}


def test_the_slower_server_gets_less_work() -> None:
    placer = fleet()
    at_s = answered(placer, "a", 1.0, 2 * OWN_ANSWERS)
    answered(placer, "b", 8.0, 2 * OWN_ANSWERS)
    placer.end_run("")
    sent = {"a": 0, "b": 0}
    for number in range(1000, 1090):
        request = prompt(f"{number} ".encode() * 100)
        found = placer.place(request)
        assert found is not None
        placer.send(number, request, found.worker, at_s)
        sent[found.worker] += 1
    assert sent["a"] > 3 * sent["b"] > 0


def test_a_server_with_few_answers_is_taken_to_be_like_the_others() -> None:
    placer = fleet()
    answered(placer, "a", 5.0, 2 * OWN_ANSWERS)
    costs = {name: load.costs for name, load in placer.workers.items()}
    assert costs["a"] == costs["b"]
    assert costs["b"] is not None
    assert costs["b"].decode_s == pytest.approx(5 * COSTS.decode_s, rel=0.2)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 100.0), st.integers(1, 60))
def test_no_work_is_left_once_all_has_ended(slowness: float, count: int) -> None:
    placer = fleet()
    placer.send(5000, prompt(SHARED, "run"), "a", 0.0)
    at_s = answered(placer, "a", slowness, count)
    assert placer.workers["a"].in_flight_s >= 0
    placer.computed(5000)
    placer.end(5000, now_s=at_s, output_tokens=100.0)
    assert placer.workers["a"].in_flight_s == pytest.approx(0.0, abs=1e-6)


def test_a_shortfall_of_an_engines_larger_block_is_no_eviction() -> None:
    for slack_share, believed in ((0.0, False), (0.05, True)):
        placer = fleet()
        placer.send(1, prompt(b"o" * 4000), "a")
        placer.end(1)
        placer.send(2, prompt(SHARED), "a")
        placer.end(2)
        placer.send(3, prompt(SHARED), "a")
        placer.end(3, cached_share=0.96, slack_share=slack_share)
        assert ("a" in placer.prefixes.match(b"o" * 4000)) is believed
