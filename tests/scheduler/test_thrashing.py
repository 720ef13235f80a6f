"""When the gate is lowered because contexts are computed again, and that it always comes back."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import NodeDeclared, NodeFinished, RequestSent, RunStarted
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler import State, apply
from agentrt.scheduler.admission.thrashing import MAX_STEPS, STEP, WINDOW_S, Thrashing

Make = Callable[..., Any]
RUN = RunId("0" * 16)
KV = 1000


def thrashing(seconds: int, again_s: float = 0.5) -> Thrashing:
    """So many seconds, in each of which so much time went into computing again."""
    one = Thrashing()
    for second in range(1, seconds + 1):
        one.note_recompute(100.0 + second, again_s)
    return one


def test_five_seconds_of_it_lower_the_gate_once() -> None:
    assert [thrashing(seconds).steps for seconds in (2, 6, 11, 16, 60)] == [0, 1, 2, 3, 3]


def test_less_than_a_fifth_of_the_time_does_not() -> None:
    assert thrashing(60, again_s=0.19).steps == 0


def test_between_the_two_bounds_it_stays_as_it_is() -> None:
    one = thrashing(6)
    for second in range(7, 40):
        one.note_recompute(100.0 + second, 0.15)
    assert one.steps == 1
    for second in range(40, 60):
        one.note_recompute(100.0 + second, 0.05)
    assert one.steps == 0


def test_looking_changes_nothing() -> None:
    one = thrashing(16)
    assert one.steps_at(1e6) == 0
    assert one.steps_at(116.0) == 3 == one.steps


moments = st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 10.0)), max_size=60)


@settings(deadline=None, derandomize=True)
@given(moments=moments, later_s=st.floats(0.0, 5.0))
def test_it_stays_within_bounds_and_always_recovers(
    moments: list[tuple[float, float]], later_s: float
) -> None:
    one, now_s = Thrashing(), 1000.0
    for gap_s, again_s in moments:
        before = one.steps
        now_s += gap_s
        one.note_recompute(now_s, again_s)
        assert 0 <= one.steps <= MAX_STEPS
        assert one.steps <= before + 1, "a step at a time"
    now_s += WINDOW_S + later_s  # nothing is told any more
    looks = 0
    while (wake_s := one.next_window_s) is not None:
        now_s = max(now_s, wake_s)
        one.end_window(now_s)
        assert one.next_window_s is None or one.next_window_s > now_s, (
            "else it would be looked at for ever"
        )
        looks += 1
        assert looks <= MAX_STEPS + 1
    assert one.steps == 0


def chain(cached: tuple[int, ...], *, prefill_s: float, recomputed: int = 0) -> State:
    """A run of generations one after the other, each over all that was before and 100 tokens."""
    state = State(kv_tokens={"default": (KV, 0)})
    apply(state, RunStarted(RUN, "p", "p.py:p", 0.0, 0))
    for turn, found in enumerate(cached):
        begin(state, turn, 300 * (turn + 1))
        end(state, turn, found, prefill_s, recomputed)
    return state


def begin(state: State, turn: int, prompt: int) -> None:
    """Its engine has a generation."""
    node, at_s = NodeId(f"n{turn}"), 10.0 + 2 * turn
    declared = NodeDeclared(RUN, node, "generate", "g", None, (), "p.py:1", at_s, model="default")
    apply(state, declared)
    sent = RequestSent(RUN, node, RequestId(turn), "e", "default", True, at_s, 0.0, prompt)
    apply(state, sent)


def end(state: State, turn: int, found: int, prefill_s: float, recomputed: int = 0) -> None:
    """The generation is over; so much of its prompt was in the cache."""
    ledger = Ledger(
        prompt_tokens=300 * (turn + 1),
        cached_tokens=found,
        recomputed_tokens=recomputed,
        output_tokens=100,
        prefill_s=prefill_s,
        decode_s=0.1,
        steps=10,
        batch_size_sum=10,
    )
    at_s = 11.0 + 2 * turn
    apply(state, NodeFinished(RUN, NodeId(f"n{turn}"), "ok", at_s, ledger=ledger))


@pytest.mark.parametrize(
    ("cached", "recomputed", "share"),
    [
        ((0, 400, 700), 0, 0.0),  # each found what the one before left
        ((0, 368, 668), 0, 0.0),  # but for a part of a page
        ((0, 0, 700), 0, (400 - 32) / 600 / 5),
        ((0, 0, 0), 0, ((400 - 32) / 600 + (700 - 32) / 900) / 5),
        ((0, 400, 700), 100, (100 / 400 + 2 * 100 / 300) / 5),
    ],
)
def test_what_a_chain_does_not_find_again_was_lost(
    cached: tuple[int, ...], recomputed: int, share: float
) -> None:
    state = chain(cached, prefill_s=1.0, recomputed=recomputed)
    assert state.admission.thrashing.share_at(15.0) == pytest.approx(share)


def test_what_comes_after_a_fork_need_not_go_on_from_its_branches() -> None:
    """A summary of summaries is longer than any part, and has nothing of them in the cache."""
    state = State(kv_tokens={"default": (KV, 0)})
    apply(state, RunStarted(RUN, "p", "p.py:p", 0.0, 0))
    begin(state, 0, 300)
    begin(state, 1, 600)
    end(state, 0, 0, 1.0)
    end(state, 1, 0, 1.0)
    begin(state, 2, 900)
    end(state, 2, 0, 1.0)
    assert state.admission.thrashing.share_at(15.0) == 0.0
    begin(state, 3, 1200)  # it goes on from the summary
    end(state, 3, 0, 1.0)
    assert state.admission.thrashing.share_at(17.0) > 0.0


def test_cheap_prompts_do_not_lower_the_gate() -> None:
    assert chain((0,) * 9, prefill_s=0.05).admission.thrashing.steps == 0
    dear = chain((0,) * 9, prefill_s=1.0).admission
    assert dear.thrashing.steps > 0
    assert dear.limit_tokens("default", 27.0) == pytest.approx(
        0.8 * KV * STEP**dear.thrashing.steps
    )


def test_a_lowered_gate_holds_says_why_and_opens_by_itself(world: Make, job: Any) -> None:
    """Nothing but time passes: the run that fits once the gate is back comes in then."""
    jobs = [job(1.0, (60.0,), 300, "long"), job(2.0, (1.0,), 450, "next")]
    one = world(1000, jobs)
    one.state.admission.note_end(Ledger(), 0.0, 1.5, 2.0)
    one.state.admission.note_end(Ledger(), 0.0, 6.0, 2.0)
    assert one.state.admission.thrashing.steps == 1
    one.run(jobs)
    (held,) = [verdict for _, verdict in one.admissions() if not verdict.admitted]
    assert held.reason.endswith("and less of it, as contexts are computed again")
    terms = dict(held.terms)
    assert terms["limit_tokens"] == pytest.approx(800 * STEP)
    assert "computed_again_share" in terms
    assert 6.0 < jobs[1].began_at_s < 25.0
