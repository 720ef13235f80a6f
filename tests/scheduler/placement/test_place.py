"""The decision which worker gets a request."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler.placement.place import NEW_RUN_WEIGHT, Placement, place
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts, WorkerLoad

COSTS = TokenCosts(prefill_s=0.001, decode_s=0.01)


def request(
    prompt_tokens: float = 1000.0,
    output_tokens: float = 10.0,
    waited_s: float = 0.0,
    *excluded: str,
) -> PlacementRequest:
    return PlacementRequest(
        b"", prompt_tokens, output_tokens, waited_s=waited_s, excluded=frozenset(excluded)
    )


def placed(
    request: PlacementRequest, workers: list[WorkerLoad], matched: dict[str, float] | None = None
) -> Placement:
    found = place(request, workers, matched or {}, COSTS)
    assert found is not None
    return found


workers_of_a_fleet = st.lists(
    st.builds(
        WorkerLoad,
        st.just(""),
        weight=st.sampled_from([0.5, 1.0, 4.0]),
        healthy=st.booleans(),
        draining=st.booleans(),
        room=st.sampled_from([-1.0, 0.0, 1.0, 8.0, math.inf]),
        in_flight_s=st.floats(0, 1e6),
        recent_s=st.floats(0, 1e6),
    ),
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(workers_of_a_fleet, st.data(), st.floats(0, 1e5), st.floats(0, 1e4))
def test_only_workers_that_may_have_it(
    workers: list[WorkerLoad], data: st.DataObject, tokens: float, waited_s: float
) -> None:
    for number, worker in enumerate(workers):
        worker.name = str(number)
    excluded = data.draw(st.sets(st.sampled_from(["0", "1", "5"])))
    matched = {worker.name: data.draw(st.floats(0, tokens)) for worker in workers}
    asked = request(tokens, 50.0, waited_s, *excluded)
    found = place(asked, workers, matched, COSTS)
    able = {one.name: one for one in workers if one.eligible and one.name not in excluded}
    assert (found is None) == (not able)
    if found is None:
        return
    assert found.waits == (able[found.worker].room < 1)
    with_room = [one for one in able.values() if one.room >= 1]
    if found.waits and with_room:
        least_weight = min(one.weight for one in able.values())
        longest_s = NEW_RUN_WEIGHT * COSTS.prefill_s * tokens / least_weight
        assert waited_s <= longest_s, "it starves: it has waited longer than any prefix is worth"
    assert place(asked, workers, matched, COSTS) == found, "nothing is changed by a decision"


def test_a_continuation_goes_where_its_prefix_is() -> None:
    workers = [WorkerLoad("a", in_flight_s=1.0), WorkerLoad("b"), WorkerLoad("c")]
    found = placed(request(), workers, {"a": 900.0, "b": 100.0})
    assert (found.worker, found.reason, found.waits) == ("a", "prefix", False)
    assert dict(found.terms)["matched_tokens"] == 900.0


def test_a_prefix_is_copied_once_its_worker_has_too_much_to_do() -> None:
    workers = [WorkerLoad("a", in_flight_s=10.0), WorkerLoad("b", in_flight_s=3.0)]
    found = placed(request(), workers, {"a": 900.0})
    assert (found.worker, found.reason) == ("b", "overload")


def test_cold_prompts_go_to_the_least_work_and_not_to_the_fewest_requests() -> None:
    workers = [WorkerLoad("few", in_flight_s=9.0, room=9), WorkerLoad("many", in_flight_s=2.0)]
    found = placed(request(), workers)
    assert (found.worker, found.reason) == ("many", "spread")


def test_a_new_run_goes_to_the_worker_with_less_work_of_late() -> None:
    workers = [WorkerLoad("late", recent_s=40.0), WorkerLoad("b", in_flight_s=2.0)]
    assert placed(request(), workers).worker == "b"
    workers[0].recent_s = 4.0
    assert placed(request(), workers).worker == "late"


def test_work_of_late_moves_no_run_from_its_prefix() -> None:
    workers = [WorkerLoad("home", recent_s=400.0, in_flight_s=20.0), WorkerLoad("b")]
    matched = {"home": 900.0}
    assert placed(request(), workers, matched).worker == "b", "the prefix is anybody's"
    found = place(request(), workers, matched, COSTS, home="home")
    assert found is not None
    assert (found.worker, found.reason) == ("home", "prefix"), "the prefix is its own"
    workers[0].in_flight_s = 50.0
    found = place(request(), workers, matched, COSTS, home="home")
    assert found is not None
    assert (found.worker, found.reason) == ("b", "overload")


def test_siblings_ahead_count_more_than_the_work_of_others() -> None:
    workers = [WorkerLoad("home", in_flight_s=30.0), WorkerLoad("b")]
    matched = {"home": 900.0}
    for own_s, chosen in ((2.0, "home"), (30.0, "b")):
        found = place(request(), workers, matched, COSTS, {"home": own_s}, home="home")
        assert found is not None
        assert found.worker == chosen


def test_faster_workers_get_more() -> None:
    workers = [WorkerLoad("slow", in_flight_s=4.0), WorkerLoad("fast", 4.0, in_flight_s=8.0)]
    assert placed(request(), workers).worker == "fast"


def test_ties_go_to_the_worker_that_was_sent_least_of_late() -> None:
    workers = [
        WorkerLoad("a", recent_s=2.0),
        WorkerLoad("b", recent_s=1.0),
        WorkerLoad("c", recent_s=3.0),
    ]
    assert placed(request(), workers).worker == "b"


def test_it_waits_for_its_prefix_no_longer_than_that_is_worth() -> None:
    workers = [WorkerLoad("a", room=0, in_flight_s=1.0), WorkerLoad("b")]
    matched = {"a": 900.0}
    found = placed(request(), workers, matched)
    assert (found.worker, found.reason, found.waits) == ("a", "wait", True)
    late = placed(request(1000.0, 10.0, 4.0), workers, matched)
    assert (late.worker, late.reason, late.waits) == ("b", "overload", False)
    workers[0].in_flight_s = 9.0
    assert placed(request(), workers, matched).worker == "b", "the wait is long"


def test_a_full_fleet_makes_it_wait_for_the_best() -> None:
    workers = [WorkerLoad("a", room=0, in_flight_s=5.0), WorkerLoad("b", room=0, in_flight_s=1.0)]
    found = placed(request(1000.0, 10.0, 1e9), workers)
    assert (found.worker, found.reason, found.waits) == ("b", "full", True)


def test_one_worker_is_left() -> None:
    workers = [WorkerLoad("a", healthy=False), WorkerLoad("b", draining=True), WorkerLoad("c")]
    assert placed(request(), workers).reason == "only"
    assert place(request(1.0, 1.0, 0.0, "c"), workers, {}, COSTS) is None
