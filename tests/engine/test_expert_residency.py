"""Which experts are resident: bounded, learned from their load, and never those in use that go."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.ops.expert_residency import MARGIN, ExpertResidency, ResidencyChange

LAYERS, EXPERTS = 3, 6
quick = settings(max_examples=150, deadline=None, derandomize=True, database=None)
needed = st.sets(st.integers(0, EXPERTS - 1), min_size=1).map(sorted)
forwards = st.lists(st.lists(needed, min_size=LAYERS, max_size=LAYERS), max_size=12)
sizes = st.lists(st.integers(1, 9), min_size=LAYERS, max_size=LAYERS)


def resident_of(residency: ExpertResidency) -> set[tuple[int, int]]:
    places = [(layer, one) for layer in range(LAYERS) for one in range(EXPERTS)]
    return {place for place in places if residency.is_resident(place)}


def opened(bound: int, layer_sizes: list[int]) -> ExpertResidency:
    residency = ExpertResidency(bound, half_life=4)
    for size in layer_sizes:
        residency.add_layer([size] * EXPERTS)
    return residency


def run(residency: ExpertResidency, steps: list[list[list[int]]]) -> list[ResidencyChange]:
    made = []
    for step in steps:
        for layer, taken in enumerate(step):
            residency.note(layer, taken)
            made.append(residency.decide(layer, taken))
            residency.apply(made[-1])
    return made


@quick
@given(bound=st.integers(0, 60), layer_sizes=sizes, steps=forwards)
def test_the_bound_holds_and_what_is_in_use_stays(bound, layer_sizes, steps):
    residency = opened(bound, layer_sizes)
    for step in steps:
        for layer, taken in enumerate(step):
            before = resident_of(residency)
            residency.note(layer, taken)
            change = residency.decide(layer, taken)
            assert resident_of(residency) == before  # a decision changes nothing
            residency.apply(change)
            after = resident_of(residency)

            assert residency.resident_bytes == sum(layer_sizes[at] for at, _ in after) <= bound
            in_use = {(layer, one) for one in taken}
            assert not in_use & set(change.evicted)
            assert after == (before - set(change.evicted)) | set(change.admitted)
            assert set(change.evicted) <= before
            assert in_use - before == set(change.admitted) | set(change.passing)
            assert change.hits == len(in_use & before)
            assert not set(change.admitted) & set(change.passing)


@quick
@given(bound=st.integers(0, 60), layer_sizes=sizes, steps=forwards)
def test_equal_loads_are_decided_alike(bound, layer_sizes, steps):
    assert run(opened(bound, layer_sizes), steps) == run(opened(bound, layer_sizes), steps)


@quick
@given(bound=st.integers(1, 60), size=st.integers(1, 9), steps=forwards)
def test_a_hot_expert_stays_while_a_colder_one_of_its_size_could_go(bound, size, steps):
    residency = opened(bound, [size] * LAYERS)
    for step in steps:
        for layer, taken in enumerate(step):
            residency.note(layer, taken)
            change = residency.decide(layer, taken)
            residency.apply(change)
            in_use = {(layer, one) for one in taken}
            stayed = resident_of(residency) - in_use
            for gone in change.evicted:
                assert all(residency.heat(gone) <= residency.heat(one) for one in stayed)
                assert all(
                    residency.heat(gone) + MARGIN < residency.heat(one) for one in change.admitted
                )


def test_a_forward_that_takes_all_does_not_push_out_the_hot_ones():
    residency = opened(2, [1] * LAYERS)
    run(residency, [[[0], [3], [5]]] * 6)
    hot = resident_of(residency)
    run(residency, [[list(range(EXPERTS))] * LAYERS])
    assert resident_of(residency) == hot


def test_what_was_hot_once_makes_room_for_what_is_hot_now():
    residency = opened(3, [1] * LAYERS)
    run(residency, [[[0], [0], [0]]] * 40)
    run(residency, [[[1], [1], [1]]] * 40)
    assert resident_of(residency) == {(layer, 1) for layer in range(LAYERS)}


def test_an_expert_larger_than_the_bound_is_read_where_it_lies():
    residency = opened(4, [5, 4, 5])
    changes = run(residency, [[[2], [2], [2]]] * 3)
    assert resident_of(residency) == {(1, 2)}
    assert changes[0].passing == ((0, 2),)
