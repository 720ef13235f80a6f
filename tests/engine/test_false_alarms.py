"""A busy machine is no stopped engine: an hour of looks on simulated time.

The same on a real machine, where four processes a core spin beside a child that beats, computes and
takes one step of 30 s, for an hour:
`AGENTRT_ALARM_SECONDS=3600 pytest -m slow tests/engine/test_false_alarms.py`.
"""

import multiprocessing
import os
import tempfile
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.process.life_signs import BEAT_S, LifeSigns, Reading
from agentrt.engine.process.process_state import ProcessState, process_state
from agentrt.engine.process.vitals import CHECK_S, Vitals

HOUR_S = 3600.0
LEGAL_S = 30.0


def load_of(share: float, gaps: list[float], until_s: float = HOUR_S) -> list[str]:
    """Verdicts of an hour in which the engine gets a share of a core.

    Args:
        share: Processor time that the engine gets, in seconds a second.
        gaps: Seconds for which neither beat nor clock tick comes, again and again.
        until_s: Seconds to simulate.
    """
    vitals = Vitals()
    verdicts: list[str] = []
    now_s = beat_at_s = cpu_s = 0.0
    beats, phases, step_ends_s, forecast_s, gap = 0, 2, 0.0, 0.01, 0
    while now_s < until_s:
        late_s = CHECK_S * (1 + (gap % 3) / 2)  # the owner is late, too
        now_s += late_s
        if now_s >= beat_at_s:
            beats += 1
            cpu_s += share * late_s
            beat_at_s = now_s + BEAT_S + gaps[gap % len(gaps)]
            gap += 1
        if now_s >= step_ends_s:
            phases += 1
            is_legal_long = until_s / 2 <= now_s < until_s / 2 + CHECK_S * 2
            forecast_s = LEGAL_S / 10 if is_legal_long else 0.01
            step_ends_s = now_s + (LEGAL_S if is_legal_long else 0.05 / share)
        reading = Reading(beats, phases, forecast_s)
        verdicts.append(vitals.look(reading, ProcessState(round(cpu_s, 2)), late_s))
    return verdicts


@given(
    share=st.floats(0.05, 1.0),
    gaps=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20),
)
@settings(max_examples=25, deadline=None)
def test_no_alarm_in_an_hour_with_four_busy_processes_a_core(
    share: float, gaps: list[float]
) -> None:
    """A beat comes up to a second late, a step takes twenty times as long, one takes 30 s."""
    assert set(load_of(share, gaps)) == {"alive"}


def test_silence_of_three_seconds_in_that_hour_is_one() -> None:
    assert "stopped" in load_of(0.2, [0.0, 0.5, 3.5])


def _spin() -> None:
    while True:
        pass


def _work(fd: int, seconds: float) -> None:
    """Beat, and compute steps of a millisecond; one of them takes 30 s."""
    signs = LifeSigns(fd)
    signs.start_beating()
    began_s, had_long = time.monotonic(), False
    while time.monotonic() < began_s + seconds:
        is_long = not had_long and time.monotonic() > began_s + seconds / 3
        had_long = had_long or is_long
        signs.begin(LEGAL_S / 10 if is_long else 0.001)
        ends_s = time.monotonic() + (LEGAL_S if is_long else 0.001)
        while time.monotonic() < ends_s:
            pass


@pytest.mark.slow
def test_no_alarm_beside_processes_that_spin() -> None:
    """Four a core, for some minutes or as long as the environment says."""
    seconds = float(os.environ.get("AGENTRT_ALARM_SECONDS", "120"))
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryFile() as page:
        signs = LifeSigns.on_new(page)
        worker = context.Process(target=_work, args=(page.fileno(), seconds), daemon=True)
        worker.start()
    assert worker.pid is not None
    spinning = [
        context.Process(target=_spin, daemon=True) for _ in range(4 * (os.cpu_count() or 1))
    ]
    vitals, looked_s, found = Vitals(), time.monotonic(), set()
    try:
        for one in spinning:
            one.start()
        while worker.is_alive():
            worker.join(CHECK_S)
            now_s = time.monotonic()
            if worker.is_alive():
                found.add(vitals.look(signs.read(), process_state(worker.pid), now_s - looked_s))
            looked_s = now_s
    finally:
        for one in (*spinning, worker):
            one.kill()
    assert found == {"alive"}
