"""Costs out of measured steps, and back from files."""

import json
from pathlib import Path
from random import Random

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.sim.bench_file import observed_in
from agentrt.lab.sim.calibrate import fit_without_odd
from agentrt.lab.sim.costs import EIGHT_B_ON_H200, SimCosts, StepWork, load_costs
from agentrt.lab.sim.fit import ObservedSteps, fit
from agentrt.scheduler.estimates.step_model import StepTime

TRUE = SimCosts(StepTime(base_s=0.02, prefill_s=2e-3, decode_s=1e-3, kv_s=2e-6), pair_s=5e-7)
TRACES = Path(__file__).parents[3] / "traces" / "bench"


def steps(costs: SimCosts, *, noise: float, count: int = 200) -> list[ObservedSteps]:
    random = Random(0)
    found = []
    for _ in range(count):
        prompts, decodes = random.choice((0, 0, 64, 256, 512)), random.randint(0, 16)
        context = random.randint(32, 2048)
        work = StepWork(prompts, decodes, (prompts > 0) * context + decodes * context, 0.0)
        work = StepWork(prompts, decodes, work.kv_tokens, prompts * (context - prompts / 2))
        found.append(ObservedSteps(1, work, costs.of(work) * random.uniform(1 - noise, 1 + noise)))
    return found


def test_known_costs_are_found_again() -> None:
    found = fit(steps(TRUE, noise=0.0))
    assert found.pair_s == pytest.approx(TRUE.pair_s, rel=1e-6)
    for part in ("base_s", "prefill_s", "decode_s", "kv_s"):
        assert getattr(found.step, part) == pytest.approx(getattr(TRUE.step, part), rel=1e-6)
    assert found.residuals["p95"] == pytest.approx(1.0)


def test_noise_moves_costs_a_little() -> None:
    found = fit(steps(TRUE, noise=0.1))
    assert found.step.base_s == pytest.approx(TRUE.step.base_s, rel=0.1)
    assert found.step.prefill_s == pytest.approx(TRUE.step.prefill_s, rel=0.15)
    assert 1.0 < found.residuals["p95"] < 1.15


def test_no_part_is_negative() -> None:
    """Where a part cannot be told from noise it is nothing."""
    flat = [ObservedSteps(1, StepWork(0, batch, 10 * batch, 0.0), 0.01) for batch in range(1, 9)]
    found = fit(flat)
    assert found.step.base_s == pytest.approx(0.01)
    assert (found.step.prefill_s, found.step.decode_s, found.step.kv_s) == (0.0, 0.0, 0.0)


def test_disturbed_steps_do_not_count() -> None:
    quiet = steps(TRUE, noise=0.02)
    disturbed = [ObservedSteps(1, one.work, one.took_s * 8) for one in quiet[::10]]
    found = fit_without_odd([*quiet, *disturbed])
    assert found.step.base_s == pytest.approx(TRUE.step.base_s, rel=0.05)
    assert found.observations == len(quiet)


@pytest.mark.parametrize("name", ["half-hf.json", "tiny-hf.json"])
def test_a_file_of_the_bench_is_read(name: str) -> None:
    """Committed measurements: what is computed is near what was measured, for every row."""
    observed, about = observed_in(TRACES / name)
    found = fit(observed)
    assert 0.9 < found.residuals["p5"] <= found.residuals["p95"] < 1.1
    assert found.step.base_s > 0
    assert found.step.prefill_s > 0
    assert about["cores"] == 2


def test_too_little_to_fit() -> None:
    with pytest.raises(UsageError, match="0 measured steps"):
        fit([])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "is no JSON"),
        ("[]", "does not hold"),
        ('{"schema": "other"}', "does not hold"),
        ('{"schema": "agentrt.bench.engine/1", "rows": [{}]}', "lacks"),
    ],
)
def test_other_files_are_refused(text: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=wrong):
        observed_in(path)


def test_costs_go_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(EIGHT_B_ON_H200.to_json()), "utf-8")
    read = load_costs(str(path))
    assert read == EIGHT_B_ON_H200
    assert read.about == EIGHT_B_ON_H200.about
    assert load_costs("8b-h200") is EIGHT_B_ON_H200


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"step": {}}, "base_s, decode_s, kv_s, prefill_s"),
        ({"submit_s": -1}, "submit_s"),
        ({"submit_s": "much"}, "submit_s"),
        ({"other": 1.0}, "other"),
        ({"step": 3}, "has no costs of a step"),
        ({"schema": "x"}, "does not hold"),
    ],
)
def test_costs_that_are_none(change: dict[str, object], wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({**EIGHT_B_ON_H200.to_json(), **change}), "utf-8")
    with pytest.raises(UsageError, match=wrong):
        load_costs(str(path))


def test_a_name_that_is_none() -> None:
    with pytest.raises(UsageError, match="cannot read nonesuch"):
        load_costs("nonesuch")
