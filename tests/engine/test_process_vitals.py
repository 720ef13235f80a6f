"""When an engine counts as stopped or hung: on its signs of life, without waiting."""

import os
import tempfile
from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.engine.process.backend import backoff_s
from agentrt.engine.process.forecasts import UNKNOWN_S, StepForecast, load_forecast_s
from agentrt.engine.process.life_signs import LifeSigns, Reading
from agentrt.engine.process.process_state import ProcessState, count_oom_kills, process_state
from agentrt.engine.process.vitals import CHECK_S, Vitals


def looks(vitals: Vitals, readings: list[Reading], cpu_s: list[float | None]) -> list[str]:
    pairs = zip(readings, cpu_s, strict=True)
    return [vitals.look(one, ProcessState(cpu), CHECK_S) for one, cpu in pairs]


def test_a_stopped_process_is_noticed_in_three_seconds() -> None:
    still = [Reading(beats=9, phases=3)] * 6
    found = looks(Vitals(), still, [1.0] * 6)
    assert found.index("stopped") * CHECK_S <= 2.5
    assert found[:4] == ["alive"] * 4


def test_a_step_that_holds_all_threads_is_alive_while_it_computes() -> None:
    """No beat comes, but processor time passes."""
    still = [Reading(beats=9, phases=3)] * 60
    assert set(looks(Vitals(), still, [0.5 * at for at in range(60)])) == {"alive"}


def test_beats_alone_are_life_where_no_processor_time_is_told() -> None:
    beating = [Reading(beats=at, phases=3) for at in range(60)]
    assert set(looks(Vitals(), beating, [None] * 60)) == {"alive"}


def test_while_it_loads_more_silence_is_borne() -> None:
    found = looks(Vitals(), [Reading(beats=9, phases=1)] * 40, [1.0] * 40)
    assert 14.0 <= found.index("stopped") * CHECK_S <= 16.0


def test_one_that_is_stopped_while_it_loads_is_noticed_in_three_seconds() -> None:
    vitals, still = Vitals(), ProcessState(1.0, is_stopped=True)
    found = [vitals.look(Reading(9, 1, 30.0), still, CHECK_S) for _ in range(6)]
    assert found.index("stopped") * CHECK_S <= 2.5


@pytest.mark.parametrize(("forecast_s", "hangs_after_s"), [(0.01, 5.0), (0.25, 5.0), (2.0, 40.0)])
def test_a_step_hangs_at_twenty_forecasts_and_five_seconds(
    forecast_s: float, hangs_after_s: float
) -> None:
    vitals, looked = Vitals(), 0
    while (
        vitals.look(Reading(looked, 7, forecast_s), ProcessState(float(looked)), CHECK_S) == "alive"
    ):
        looked += 1
        assert looked < 1000
    assert hangs_after_s <= looked * CHECK_S <= hangs_after_s + 2 * CHECK_S
    assert "a step has taken" in vitals.describe("hangs")


def test_a_load_hangs_at_twenty_forecasts() -> None:
    """Threads beat while it waits for something that never comes."""
    readings = [Reading(at, 1, 30.0) for at in range(1300)]
    vitals = Vitals()
    found = looks(vitals, readings, [None] * 1300)
    assert 600.0 <= found.index("hangs") * CHECK_S <= 601.0
    assert "a load has taken" in vitals.describe("hangs")


def test_an_engine_that_waits_for_work_never_hangs() -> None:
    readings = [Reading(at, 7, 0.0) for at in range(1300)]
    assert set(looks(Vitals(), readings, [1.0] * 1300)) == {"alive"}


def test_a_legal_step_of_thirty_seconds_is_no_alarm() -> None:
    """Its forecast is not known, as for the first ones, or it is long."""
    for forecast_s in (UNKNOWN_S, 1.6):
        readings = [Reading(at, 7, forecast_s) for at in range(60)]
        assert set(looks(Vitals(), readings, [0.1 * at for at in range(60)])) == {"alive"}


def test_new_steps_are_progress() -> None:
    readings = [Reading(at, at, 0.01) for at in range(60)]
    assert set(looks(Vitals(), readings, [0.1 * at for at in range(60)])) == {"alive"}


def test_time_in_which_the_owner_did_not_look_proves_nothing() -> None:
    vitals = Vitals()
    for _ in range(2):
        assert vitals.look(Reading(9, 3, 0.01), ProcessState(1.0), 3600.0) == "alive"


def test_signs_are_read_through_another_mapping_of_the_page() -> None:
    with tempfile.TemporaryFile() as file:
        owner, engine = LifeSigns.on_new(file), LifeSigns(file.fileno())
    assert owner.read() == Reading(0, 0, 0.0)
    engine.begin(0.25)
    engine.begin(0.5)
    assert owner.read() == Reading(0, 2, 0.5)
    engine.rest()
    assert owner.read() == Reading(0, 3, 0.0)


def test_phases_are_counted_on_from_those_of_the_owner() -> None:
    """The owner notes the load before there is a process."""
    with tempfile.TemporaryFile() as file:
        owner = LifeSigns.on_new(file)
        owner.begin(30.0)
        engine = LifeSigns(file.fileno())
    assert owner.read().is_loading
    engine.begin(0.5)
    assert owner.read() == Reading(0, 2, 0.5)
    assert not owner.read().is_loading


def test_a_forecast_is_given_after_some_steps_of_each_kind() -> None:
    forecast = StepForecast()
    assert forecast.forecast_s(0) == UNKNOWN_S
    for _ in range(5):
        forecast.note(0, 0.01)
    assert forecast.forecast_s(0) == pytest.approx(0.01)
    assert forecast.forecast_s(100) == UNKNOWN_S
    for _ in range(5):
        forecast.note(200, 0.41)
    assert forecast.forecast_s(100) == pytest.approx(0.01 + 0.2)


def test_a_load_is_forecast_from_the_bytes_of_its_weights(tmp_path: Path) -> None:
    assert load_forecast_s(EngineConfig(tmp_path / "none")) == 30.0
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(2_000_000_000)
    assert load_forecast_s(EngineConfig(tmp_path)) == 40.0
    assert load_forecast_s(EngineConfig(tmp_path, draft_model=tmp_path)) == 50.0


def test_the_backoff_grows_to_a_limit() -> None:
    waits = [backoff_s(deaths) for deaths in range(1, 14)]
    assert waits[:4] == [0.0, 0.25, 0.5, 1.0]
    assert waits == sorted(waits)
    assert waits[-1] == 30.0


def test_the_system_tells_processor_time_and_kills() -> None:
    assert (process_state(os.getpid()).cpu_s or 0.0) > 0.0
    assert process_state(2**22 + 1) == ProcessState()
    assert count_oom_kills() >= 0
