"""Phrase patterns from `wordings/`, one file an intent, one pattern a line.

A pattern is text with nested alternatives, `(what|which) (rate|yield) did {s} earn {p}`. What it may hold:
`{s}` a symbol as it is mentioned; `{a}` and `{b}` two; `{l}` several joined with "or", `{n}` with "and";
`{p}` and `{q}` periods with their prepositions, `{y}` and `{z}` bare ones; `{m}` a month with its preposition, `{o}`
a bare one; `{u}` and `{v}` the moments of buying and selling; `{k}` a percentage, `{d}` a sum, `{w}` the number of
symbols; `{noun}` and `{other}` the names of figures.
"""

import random
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "wordings"


def intents() -> list[str]:
    """The intents that have patterns."""
    return sorted(file.stem for file in FOLDER.glob("*.txt"))


@cache
def of(intent: str) -> tuple[str, ...]:
    """The patterns of an intent."""
    return tuple((FOLDER / f"{intent}.txt").read_text("utf-8").splitlines())


def draw(rng: random.Random, intent: str) -> str:
    """A pattern of an intent."""
    return rng.choice(of(intent))
