"""The time of a step, learned from steps."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import PRIOR, StepModel, StepTime

PARTS = st.floats(0.0, 1e-2)


def sampled(true: StepTime, random: Random, noise: float = 0.0) -> tuple[int, int, int, float]:
    prefill, decode = random.choice([0, 0, 64, 512]), random.randint(0, 16)
    kv_tokens = decode * random.randint(50, 4000)
    took_s = true.step_s(prefill, decode, kv_tokens) * random.uniform(1 - noise, 1 + noise)
    return prefill, decode, kv_tokens, took_s


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.tuples(PARTS, PARTS, PARTS, PARTS), st.integers(0, 99))
def test_it_finds_what_made_the_times(parts: tuple[float, ...], seed: int) -> None:
    true = StepTime(parts[0], parts[1] / 100, parts[2], parts[3] / 1e4)
    model, random = StepModel(), Random(seed)
    for _ in range(300):
        model.add_sample(*sampled(true, random))
    found = model.step_time
    assert min(found.base_s, found.prefill_s, found.decode_s, found.kv_s) >= 0.0
    for prefill, decode, kv_tokens in ((0, 1, 500), (512, 0, 0), (64, 16, 20_000)):
        wanted = true.step_s(prefill, decode, kv_tokens)
        assert found.step_s(prefill, decode, kv_tokens) == pytest.approx(wanted, rel=0.02, abs=1e-5)


def test_noise_averages_out() -> None:
    true, random = StepTime(0.012, 3e-5, 4e-4, 2e-8), Random(1)
    model = StepModel()
    for _ in range(2500):
        model.add_sample(*sampled(true, random, noise=0.1))
    found = model.step_time
    assert found.base_s == pytest.approx(true.base_s, rel=0.05)
    assert found.prefill_s == pytest.approx(true.prefill_s, rel=0.05)
    assert found.decode_s == pytest.approx(true.decode_s, rel=0.25)


def test_only_the_latest_steps_count() -> None:
    random, model = Random(2), StepModel(window=200)
    for true in (StepTime(0.5, 1e-3, 1e-2, 1e-6), StepTime(0.01, 1e-5, 1e-4, 1e-8)):
        for _ in range(450):
            model.add_sample(*sampled(true, random))
    assert len(model) == 200
    assert model.step_time.step_s(512, 4, 4000) == pytest.approx(
        true.step_s(512, 4, 4000), rel=1e-3
    )


def test_no_part_saves_time() -> None:
    model = StepModel()
    for prefill in range(100):  # the more there is to do, the faster: no machine does that
        model.add_sample(prefill, 1, 0, 0.02 - 1e-4 * prefill)
    found = model.step_time
    assert found.prefill_s == 0.0
    assert found.step_s(0, 1) == pytest.approx(0.015, rel=0.02)


def test_without_steps_the_prior_holds() -> None:
    assert StepModel().step_time == PRIOR
    assert StepModel.fit([]) == PRIOR


def test_what_the_steps_do_not_tell_stays_as_it_was() -> None:
    model = StepModel()
    for _ in range(100):
        model.add_sample(0, 1, 0, 0.02)
    found = model.step_time
    assert found.step_s(0, 1) == pytest.approx(0.02, rel=1e-3)
    assert (found.prefill_s, found.kv_s) == (PRIOR.prefill_s, PRIOR.kv_s)


def test_it_fits_records() -> None:
    true = StepTime(0.01, 2e-5, 3e-4, 0.0)
    steps = [
        StepRecord(i, 1.0, 1.0 + true.step_s(16 * (i % 7), i % 5), 16 * (i % 7), i % 5, ())
        for i in range(200)
    ]
    found = StepModel.fit(steps)
    assert found.base_s == pytest.approx(true.base_s, rel=1e-3)
    assert found.prefill_s == pytest.approx(true.prefill_s, rel=1e-3)
    assert found.alone_s(100, 50, 0) == pytest.approx(50 * 0.0103 + 100 * 2e-5, rel=1e-2)


def test_drafts_are_rows_as_sequences_are() -> None:
    true, model = StepTime(0.01, 2e-5, 1e-3, 0.0), StepModel()
    for at in range(60):
        took_s = true.step_s(0, 1 + at % 9)
        model.add_step(StepRecord(at, 1.0, 1.0 + took_s, 0, 1, (), extra_rows=at % 9))
    found = model.step_time
    assert found.base_s == pytest.approx(true.base_s, rel=1e-3)
    assert found.decode_s == pytest.approx(true.decode_s, rel=1e-3)
