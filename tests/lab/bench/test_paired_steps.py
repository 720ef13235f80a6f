"""Steps of arms that took turns."""

import pytest

from agentrt.lab.bench.paired_steps import median_ms, ratios_by_turn


def test_figures_of_steps() -> None:
    assert median_ms([0.004, 0.001, 0.002]) == 2.0
    assert ratios_by_turn([2.0, 30.0], [1.0, 10.0]) == [2.0, 3.0], "a slow turn counts as any other"
    with pytest.raises(ValueError, match="argument"):
        ratios_by_turn([1.0], [])
