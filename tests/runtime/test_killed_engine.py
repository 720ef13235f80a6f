"""No program is lost when its engine is killed or stopped, and each gets what it would have had."""

import anyio
import pytest

from tests.runtime.killed_engine import play


@pytest.mark.model
@pytest.mark.slow
def test_programs_outlive_engines_that_are_killed_and_stopped() -> None:
    found = anyio.run(play, 4)
    assert found.kills == 4
    assert not found.lost
    assert (found.changed, found.leaked_pages) == (0, 0)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_outputs_outlive_engines_that_are_killed_while_they_draft(temperature: float) -> None:
    """The programs get the tokens of an undisturbed engine without drafts."""
    found = anyio.run(lambda: play(4, temperature=temperature, speculate_tokens=4))
    assert found.kills == 4
    assert not found.lost
    assert (found.changed, found.leaked_pages) == (0, 0)
    assert found.accepted_tokens > 100
