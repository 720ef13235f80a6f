"""The phrase patterns: well formed, each intent drawn, each question true to its calls."""

import random
import re
from pathlib import Path

import market
import pytest
from closes import load
from corpus import bare_periods, finance_patterns, lookups, patterns
from corpus.finance_tables import crowded_table, random_table
from corpus.periods import draw, iso
from held_out.questions import SYMBOLS

FILES = sorted(file.stem for file in patterns.FOLDER.glob("*.txt"))
PLACES = {*"sablnpqyzmouvkdw", "noun", "other"}
DRAWS = 60
STOCKS = Path(market.__file__).parent / "data" / "stocks.csv"
HELD_OUT_NAMES = {name.lower() for name in load(STOCKS).names.values() if " " not in name}


@pytest.mark.parametrize("intent", FILES)
def test_well_formed(intent: str):
    """Balanced, with known placeholders alone, none twice, none of a real company."""
    every = patterns.of(intent)
    assert len(every) == len(set(every)) > 20
    for pattern in every:
        depth = 0
        for character in pattern:
            depth += {"(": 1, ")": -1}.get(character, 0)
            assert depth >= 0, pattern
        assert depth == 0, pattern
        assert set(re.findall(r"\{(\w*)\}", pattern)) <= PLACES, pattern
        assert not set(re.findall(r"[A-Z]+", pattern)) & set(SYMBOLS)
        assert not set(re.findall(r"\w+", pattern.lower())) & HELD_OUT_NAMES, pattern


def test_each_file_is_drawn_from(monkeypatch: pytest.MonkeyPatch):
    """A file that no question comes from would be forgotten."""
    drawn = set()
    real = patterns.draw

    def noting(rng: random.Random, intent: str) -> str:
        drawn.add(intent)
        return real(rng, intent)

    monkeypatch.setattr(patterns, "draw", noting)
    rng = random.Random(3)
    for _ in range(60):
        table = random_table(rng)
        for kind, _share in finance_patterns.KINDS:
            kind(rng, table, draw)
    assert drawn == set(FILES)


@pytest.mark.parametrize("kind", [kind for kind, _ in finance_patterns.KINDS])
def test_questions_are_whole(kind: finance_patterns.Kind):
    """No hole is left; the calls are about identifiers of the table, or say what lacks."""
    rng = random.Random(5)
    for _ in range(DRAWS):
        table = random_table(rng)
        asked = kind(rng, table, draw)
        assert not re.search(r"[{}|]", asked.question), asked.question
        assert asked.question == " ".join(asked.question.split())
        for _, arguments in asked.calls:
            listed = arguments.get("symbols", [])
            assert isinstance(listed, list)
            one = {arguments[k] for k in ("symbol", "first", "second") if k in arguments}
            assert one | set(listed) <= set(table.identifiers)


def test_what_was_bought_gains_from_the_next_month_on():
    """The close at which something is bought is the one before the range."""
    rng = random.Random(7)
    for _ in range(DRAWS):
        bought, sold, period = bare_periods.bought_and_sold(rng, 1990, 1999)
        assert period.start is not None
        assert period.end is not None
        assert period.start <= period.end
        year = re.search(r"\d{4}", bought)
        assert year is not None
        assert period.start > iso(int(year[0]), 0)
        assert period.end[:4] in sold


def test_lookups_are_of_the_table():
    """Each is of symbols and names that the table shows, or says that one is not there."""
    rng = random.Random(11)
    for _ in range(DRAWS):
        shown, found = lookups.draw(rng)
        lines = dict(line.split(": ", 1) for line in shown.split("\n"))
        names = lines.get("Names", "").split(", ")
        known = {*lines["Symbols"].split(", "), *(name.split(" = ")[0] for name in names)}
        for said, arguments in found:
            symbols = set(re.findall(r'"([^"]+)"', arguments)) - {"symbol", "symbols", "reason"}
            assert said
            assert symbols <= known or arguments == '{"reason":"symbol"}'


def test_crowded_tables_share_letters():
    """Most of them have two symbols or names with the same first letter."""
    rng = random.Random(13)
    tables = [crowded_table(rng) for _ in range(DRAWS)]
    alike = [len({s[0] for s in table.symbols}) < len(table.symbols) for table in tables]
    assert sum(alike) > DRAWS / 2
