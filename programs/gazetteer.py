"""A small gazetteer: titled passages, and the one that fits a query best.

Plain functions over plain data: no model, no runtime.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel

PASSAGES = Path(__file__).parent / "data" / "passages.json"


class Passage(BaseModel):
    """A titled piece of text."""

    title: str
    text: str


@cache
def passages() -> tuple[Passage, ...]:
    """The passages that come with the programs."""
    return tuple(Passage.model_validate(entry) for entry in json.loads(PASSAGES.read_text("utf-8")))


def best(query: str, among: Sequence[Passage]) -> Passage:
    """The passage that shares most words with `query`; rare words and the title's weigh more."""
    titles = [_words(passage.title) for passage in among]
    bodies = [_words(f"{passage.title} {passage.text}") for passage in among]
    weight = {word: 1 / (1 + sum(word in body for body in bodies)) for word in _words(query)}

    def score(index: int) -> float:
        return sum(
            w * ((word in bodies[index]) + 2 * (word in titles[index]))
            for word, w in weight.items()
        )

    return among[max(range(len(among)), key=score)]


def growth(old: float, new: float) -> float:
    """Percent from old to new."""
    return round((new / old - 1) * 100, 2)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
