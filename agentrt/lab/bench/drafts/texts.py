"""Texts of a round, drawn from a seed: prompts, recorded outputs, and questions for a program.

Kinds of text:
    copy: An output made of passages of its prompt, with a few new words between them.
    form: Outputs of one form, with values that differ, as a call site writes them.
    new: An output in which no word stands twice, nor in its prompt: nothing can be drafted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, get_args

from agentrt.base.record import record

TextKind = Literal["copy", "form", "new"]
TEXT_KINDS: tuple[TextKind, ...] = get_args(TextKind)

_PASSAGE_TOKENS = 8, 48
_NEW_TOKENS = 1, 4
_FORM_TOKENS = 6, 16
"""Words of a form between two values."""

_SYMBOLS = ("AAPL", "AMZN", "GOOG", "IBM", "MSFT")
_FIRST_YEAR, _LAST_YEAR = 2005, 2010
"""Years of which the program has prices of all symbols."""


@record
class RoundTexts:
    """Texts of one round.

    Attributes:
        prompts: Token ids of each prompt.
        outputs: Token ids of each output.
    """

    prompts: list[list[int]]
    outputs: list[list[int]]


def texts_of(
    kind: TextKind,
    *,
    words: Sequence[int],
    batch: int,
    prompt_tokens: int,
    output_tokens: int,
    round_number: int,
) -> RoundTexts:
    """Texts of a round; rounds share no text but that of the form.

    Args:
        kind: Kind of text.
        words: Ids of all words.
        batch: Number of texts.
        prompt_tokens: Length of each prompt.
        output_tokens: Length of each output.
        round_number: Seed, together with the kind.
    """
    prompts: list[list[int]] = []
    outputs: list[list[int]] = []
    for at in range(batch):
        drawn = random.Random(f"{kind} {round_number} {at}")
        distinct = drawn.sample(words, prompt_tokens + output_tokens)
        prompt = distinct[:prompt_tokens]
        prompts.append(prompt)
        if kind == "new":
            outputs.append(distinct[prompt_tokens:])
        elif kind == "copy":
            outputs.append(_copied(prompt, words, output_tokens, drawn))
        else:
            outputs.append(_filled(words, output_tokens, drawn))
    return RoundTexts(prompts, outputs)


def _copied(
    prompt: list[int], words: Sequence[int], tokens: int, drawn: random.Random
) -> list[int]:
    """Passages of a prompt, each behind a few new words."""
    output: list[int] = []
    while len(output) < tokens:
        output += drawn.choices(words, k=drawn.randint(*_NEW_TOKENS))
        begin = drawn.randrange(max(1, len(prompt) - _PASSAGE_TOKENS[0]))
        output += prompt[begin : begin + drawn.randint(*_PASSAGE_TOKENS)]
    return output[:tokens]


def _filled(words: Sequence[int], tokens: int, drawn: random.Random) -> list[int]:
    """A form that is always the same, with values of a few new words."""
    form = random.Random("form")
    output: list[int] = []
    while len(output) < tokens:
        output += form.choices(words, k=form.randint(*_FORM_TOKENS))
        output += drawn.choices(words, k=drawn.randint(*_NEW_TOKENS))
    return output[:tokens]


def questions_of(count: int) -> list[str]:
    """Different questions about prices, in an order that is always the same."""
    found = _questions()
    random.Random("questions").shuffle(found)
    if count > len(found):
        raise ValueError(f"there are {len(found)} questions, not {count}")
    return found[:count]


def _questions() -> list[str]:
    spans = [
        (first, last)
        for first in range(_FIRST_YEAR, _LAST_YEAR)
        for last in range(first, _LAST_YEAR)
    ]
    found: list[str] = []
    for first, last in spans:
        years = f"from {first} to {last}" if last > first else f"in {first}"
        for at, symbol in enumerate(_SYMBOLS):
            found.append(f"How volatile was {symbol} {years}?")
            found.append(f"What was the largest drawdown of {symbol} {years}?")
            found += [
                f"Which returned more {years}, {symbol} or {other}?" for other in _SYMBOLS[at + 1 :]
            ]
    return found


QUESTIONS = len(_questions())
"""Different questions that there are."""
