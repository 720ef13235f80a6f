"""The passages that `react.py` searches."""

import gazetteer
import pytest


@pytest.mark.parametrize("passage", gazetteer.passages(), ids=lambda p: p.title)
def test_a_title_finds_its_passage(passage: gazetteer.Passage):
    """Searching for a title gives that passage, also within a question."""
    assert gazetteer.best(passage.title, gazetteer.passages()) == passage
    assert gazetteer.best(f"What about {passage.title}?", gazetteer.passages()) == passage


def test_growth_is_in_percent():
    """From 18400 to 23920 people is 30 percent."""
    assert gazetteer.growth(18400, 23920) == 30.0
