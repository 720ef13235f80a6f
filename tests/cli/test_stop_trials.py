"""Whatever goes wrong, a run that is stopped ends, with its code and words; nothing is timed."""

import os
import random

import pytest

from tests.cli.stop_faults import FAULTS
from tests.cli.stop_trials import adopt_orphans, combinations, play

QUICK = 7
WITHOUT_ENGINE = [(name, way) for name, way in combinations() if FAULTS[name].engine == "none"]
CHOSEN = random.Random(14).sample(WITHOUT_ENGINE, QUICK)


@pytest.fixture(autouse=True, scope="module")
def orphans_come_here() -> None:
    """What a trial leaves behind is found as a child of this process."""
    adopt_orphans()


@pytest.mark.parametrize(("name", "way"), CHOSEN)
def test_a_run_ends_as_it_should(name: str, way: str) -> None:
    found = play(name, way, random.Random(0))
    assert not found.wrong, found.err


@pytest.mark.slow
@pytest.mark.model
def test_runs_end_under_every_fault() -> None:
    """`STOP_TRIALS=200` plays so many; each combination once if there are enough."""
    chance = random.Random(int(os.environ.get("STOP_SEED", "0")))
    plan = combinations()
    chance.shuffle(plan)
    for name, way in plan[: int(os.environ.get("STOP_TRIALS", "30"))]:
        found = play(name, way, chance)
        assert not found.wrong, f"{name}, {way}: {found.wrong}\n{found.err}"
