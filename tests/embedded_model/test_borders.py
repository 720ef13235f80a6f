"""Borders of what closing prices tell, questions of two halves, and what looks like the table."""

import random
import re

import market
import pytest
from corpus import finance, finance_halves, finance_patterns
from corpus.asked import stranger, years
from corpus.finance_borders import BORDERS, Border
from corpus.finance_tables import company, random_table
from corpus.periods import draw
from corpus.wording import expand
from held_out.questions import SYMBOLS

from tests.embedded_model.test_patterns import HELD_OUT_NAMES, PLACES

DRAWS = 400
EVERY = [border for border, _ in BORDERS]


@pytest.mark.parametrize("border", EVERY)
def test_well_formed(border: Border):
    """Balanced, with known placeholders, tools and reasons alone, none of a real company."""
    tools = {name.split()[0] for name in border.known} - {"rank"}
    assert tools <= set(finance.FUNCTIONS)
    assert set(border.lacking) <= set(market.LACKS)
    sides = (*border.known.values(), *border.lacking.values())
    fillers = [text for side in sides for text in side]
    for pattern in (*border.frames, *fillers):
        assert not re.search(r"[()|]", expand(pattern, random.Random(0))), pattern
        assert set(re.findall(r"\{(\w*)\}", pattern)) <= PLACES | {"x", "t"}, pattern
        assert not set(re.findall(r"\w+", pattern.lower())) & HELD_OUT_NAMES, pattern
        assert not set(re.findall(r"[A-Z]+", pattern)) & set(SYMBOLS)
    assert all("{x}" in frame for frame in border.frames)
    assert len(fillers) == len(set(fillers)) > 10


@pytest.mark.parametrize("border", EVERY)
def test_frames_serve_both_sides(border: Border):
    """Questions of both sides may open alike, so that an opening decides nothing."""
    rng = random.Random(2)
    known, lacking = (
        {border.draw(rng, side)[0].split()[0] for _ in range(DRAWS)} for side in (True, False)
    )
    assert known & lacking


def test_a_side_has_a_call_or_a_reason():
    """More than half are answered, and what is answered names symbols of the table alone."""
    rng = random.Random(3)
    declined = 0
    for _ in range(DRAWS):
        table = random_table(rng)
        asked = finance_patterns.border(rng, table, draw)
        ((name, arguments),) = asked.calls
        declined += name == "unanswerable"
        outcome = finance.run(table, (name, arguments))
        assert (
            not isinstance(outcome, str)
            or " only" in outcome
            or name in ("unanswerable", "correlation")
        )
    assert 0.35 < declined / DRAWS < 0.6


def test_an_unanswered_half_leaves_the_whole_unanswered():
    """One call says what lacks, in about half of them; else the calls of both halves stand."""
    rng = random.Random(4)
    declined, longest = 0, 0
    for _ in range(DRAWS):
        calls = finance_halves.ask(rng, random_table(rng), draw).calls
        lacking = [name for name, _ in calls if name == "unanswerable"]
        assert not lacking or len(calls) == 1
        declined += bool(lacking)
        longest = max(longest, len(calls))
    assert 0.4 < declined / DRAWS < 0.65
    assert longest > 1


def test_halves_are_whole():
    """No hole is left, and words do not run together."""
    rng = random.Random(5)
    for _ in range(DRAWS):
        text = finance_halves.ask(rng, random_table(rng), draw).question
        assert not re.search(r"[{}|]", text), text
        assert not re.search(r"\d(and|in|plus)\b", text), text


def test_strangers_look_like_what_the_table_has():
    """Many begin with the letters of a symbol or of a name, and none is one of them."""
    rng = random.Random(6)
    alike = 0
    for _ in range(DRAWS):
        table = random_table(rng)
        other = stranger(rng, table).upper()
        known = [word.upper() for word in (*table.symbols, *table.names.values())]
        assert other not in known
        alike += any(other[:2] == word[:2] for word in known)
    assert alike > DRAWS / 8


def test_names_keep_a_line_of_names_legible():
    """What joins the words of a name is neither of the signs between one and the next."""
    rng = random.Random(7)
    found = [company(rng) for _ in range(DRAWS)]
    assert not [name for name in found if ", " in name or " = " in name]
    assert any("-" in name for name in found)
    assert any(" of " in name for name in found)


def test_years_may_lie_half_outside_of_a_table():
    """Some ranges begin before the data or end after them, and some have nothing of them."""
    rng = random.Random(8)
    half = whole = 0
    for _ in range(4 * DRAWS):
        table = random_table(rng)
        first, last = years(rng, table)
        known = range(int(table.first[:4]), int(table.last[:4]) + 1)
        inside = sum(year in known for year in range(first, last + 1))
        half += 0 < inside < last + 1 - first
        whole += not inside
    assert half > DRAWS / 20
    assert whole > DRAWS / 20
