"""Questions that look alike: the same sentences, told apart by the figure or its measure."""

import random

import pytest
from batches import encode
from corpus import finance, finance_lookalikes, finance_patterns
from corpus.example import Example, compact
from corpus.finance_figures import lacked
from corpus.finance_tables import random_table
from corpus.finance_words import NOUNS
from corpus.periods import draw
from corpus.relative_periods import DECADES, decade
from corpus.wording import expand

DRAWS = 400
PLAN_TOKENS = 400  # as `programs/finance.py` limits a plan


def test_no_lacking_figure_is_one_that_a_tool_computes():
    """A name that stood for both would teach nothing."""
    rng = random.Random(1)
    known = {expand(noun, rng).lower() for noun in NOUNS.values() for _ in range(3000)}
    found = {lacked(rng).lower() for _ in range(20_000)}
    assert len(found) > 2000
    assert not found & known


@pytest.mark.parametrize("kind", finance_lookalikes.KINDS)
def test_sentences_serve_both(kind: finance_lookalikes.Kind):
    """Figures that a tool computes and others are asked for in the same sentences."""
    rng = random.Random(2)
    openings = [{kind(rng, known)[0].split()[0] for _ in range(DRAWS)} for known in (True, False)]
    assert len(openings[0] & openings[1]) > len(openings[0]) / 5


def test_a_look_alike_calls_a_tool_or_says_what_lacks():
    """About as many are answered as are not."""
    rng = random.Random(3)
    declined = 0
    for _ in range(DRAWS):
        asked = finance_patterns.look_alike(rng, random_table(rng), draw)
        ((name, arguments),) = asked.calls
        declined += name == "unanswerable"
        assert name != "unanswerable" or arguments == {"reason": "figure"}
    assert 0.4 < declined / DRAWS < 0.6


def test_plans_of_all_pairs_fit():
    """The longest plan, every pair of a table, stays below the limit of the program."""
    rng = random.Random(4)
    longest = 0
    for _ in range(DRAWS):
        table = random_table(rng)
        asked = finance_patterns.all_pairs(rng, table, draw)
        plan = Example("finance", finance.planned(table, asked), (True,), finance.TOOLS)
        longest = max(longest, len(encode(compact(plan.messages[2]["tool_calls"]))))
    assert 200 < longest <= PLAN_TOKENS


def test_decades_may_lie_outside_of_a_table():
    """By their names, too: a name means its own years, whatever the table holds."""
    rng = random.Random(5)
    named = {word: first for first, word in DECADES.items()}
    away = 0
    for _ in range(DRAWS):
        period = decade(rng, 2000, 2010)
        assert period.start is not None
        away += not "2000" <= period.start[:4] <= "2010"
        for word in set(period.text.split()) & set(named):
            assert period.start == f"{named[word]}-01"
    assert away > DRAWS / 5
