"""Sessions: their runs count as one program, and idle ones are forgotten in the end."""

from hypothesis import given
from hypothesis import strategies as st

from agentrt.scheduler.runs.session import SessionAccount, Sessions


def test_a_session_goes_on_with_its_next_run():
    sessions = Sessions()
    first = sessions.begin_run("a", "one", 1.0)
    assert first is not None
    first.attained_s += 2.0
    sessions.end_run(first, 3.0)
    assert sessions.begin_run("a", "one", 9.0) is first
    assert (first.started_at_s, first.attained_s, first.waited_s) == (1.0, 2.0, 3.0)


def test_sessions_of_tenants_are_apart():
    sessions = Sessions()
    assert sessions.begin_run("a", "one", 1.0) is not sessions.begin_run("b", "one", 1.0)
    assert sessions.begin_run("a", "", 1.0) is None


def test_waits_of_runs_at_once_count_once():
    sessions = Sessions()
    both = [sessions.begin_run("a", "one", 0.0) for _ in range(2)]
    for session in both:
        sessions.end_run(session, 5.0)
    assert both[0] is not None
    assert both[0].waited_s == 5.0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_only_idle_sessions_are_forgotten(steps):
    sessions = Sessions(most=3)
    running: dict[str, list[SessionAccount | None]] = {}
    for begins, number in steps:
        name = f"{number}"
        if begins:
            session = sessions.begin_run("a", name, 0.0)
            running.setdefault(name, []).append(session)
        elif running.get(name):
            sessions.end_run(running[name].pop(), 0.0)
    for name, open_runs in running.items():
        for session in open_runs:
            again = sessions.begin_run("a", name, 1.0)
            assert again is session
            sessions.end_run(again, 0.0)
