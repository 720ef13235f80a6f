"""A judge of numbers in exact decimals, independent of the grammar, and pairs for it to judge."""

from __future__ import annotations

import decimal
import math
import operator
import random
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from agentrt.structured.json_schema.json_grammar import json_grammar
from agentrt.structured.json_schema.number_leaf import number_terminals
from agentrt.structured.json_schema.number_steps import LEAST_CHARACTERS

BYTES = LLTokenizer("byte")
CONTEXT = decimal.Context(prec=800)
HOLDS = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}
EDGES = [
    *(0, 1, -1, 10, 100, 0.0, 1.0, 2.0, -3.0, 0.1, 0.25, 0.5, -0.1, 1e-7),
    *(2**31 - 1, -(2**31), 2**53, -(2**53), 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1),
    *(1e16, 1e18, 1e22, 1e23, 3.4028234663852886e38, -3.4028234663852886e38),
    *(1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 2.2250738585072014e-308),
]


class Grammar:
    """The compiled grammar of a schema over bytes."""

    def __init__(self, schema: Any) -> None:
        self.matcher = LLMatcher(BYTES, json_grammar(schema), log_level=0)
        self.is_empty = bool(self.matcher.is_error())

    def takes(self, text: str) -> bool:
        """Whether the whole text fits."""
        if self.is_empty:
            return False
        state = self.matcher.deep_copy()
        ids = BYTES.tokenize_str(text)
        return state.try_consume_tokens(ids) == len(ids) and bool(state.is_accepting())


def fits(schema: dict[str, Any], text: str) -> bool:
    """Whether the number of a text fits a schema: as a decimal, and as it is read by Python."""
    whole = not set(text) & set(".eE")
    if schema["type"] == "integer" and not whole:
        return False
    if whole and len(text.lstrip("-")) > 4300:
        return False
    number = Decimal(text)
    read = 0.0
    if schema["type"] == "number":
        read = float(text)
        if math.isinf(read):
            return False
    for keyword, holds in HOLDS.items():
        if keyword not in schema:
            continue
        end = schema[keyword]
        if not holds(number, exact(end)):
            return False
        is_read_whole = whole and keyword in ("minimum", "maximum")
        if schema["type"] == "number" and not is_read_whole and not holds(read, end):
            return False
    if "multipleOf" in schema:
        return CONTEXT.remainder(number, exact(schema["multipleOf"])) == 0
    return True


def exact(number: float) -> Decimal:
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def digits(text: str) -> int:
    """Significant digits of a text."""
    return len(text.lower().split("e")[0].lstrip("-").replace(".", "").strip("0"))


def end_of_range(dice: random.Random) -> float:
    """A number for a bound: edges of machine types, short decimals, any float, any integer."""
    match dice.randrange(8):
        case 0 | 1:
            return dice.choice(EDGES)
        case 2:
            return dice.randint(-20, 20)
        case 3:
            return round(dice.uniform(-5, 5), dice.randint(0, 3))
        case 4:
            drawn: float = struct.unpack("d", dice.randbytes(8))[0]
            return drawn if math.isfinite(drawn) else 0.5
        case 5:
            size = 10 ** dice.randint(1, 30)
            return dice.randint(-size, size)
        case 6:
            return dice.uniform(-1, 1)
        case _:
            return int(10 ** dice.randint(0, 25)) - dice.randint(0, 1)


def draw_schema(dice: random.Random) -> dict[str, Any]:
    """A schema whose numbers the grammar writes by itself, one in ten with a step."""
    bounds = {keyword: end_of_range(dice) for keyword in HOLDS if dice.random() < 0.4}
    schema = {"type": dice.choice(["integer", "number", "number"]), **bounds}
    if dice.random() < 0.1:
        unit = dice.choice([1, 1, 10, 100, 8])
        stepped = {**schema, "multipleOf": dice.randint(1, 70) / unit}
        if number_terminals(stepped, whole=schema["type"] == "integer") is not None:
            return stepped
    return schema


def texts_near(schema: dict[str, Any], dice: random.Random) -> Iterator[str]:
    """Texts that lean on the ends: the ends, a unit in some place off, and the next floats."""
    numbers = [Decimal(dice.randint(-100, 100)), exact(end_of_range(dice))]
    numbers += map(Decimal, ("0", "5e-324", "1e-400", "1e309", "-1e309"))
    is_wide = not {"minimum", "exclusiveMinimum"} & schema.keys()
    is_wide = is_wide or not {"maximum", "exclusiveMaximum"} & schema.keys()
    for keyword in HOLDS.keys() & schema.keys():
        end = exact(schema[keyword])
        is_wide = is_wide or abs(end) > 10**18
        last = end.adjusted()
        units = [Decimal(10) ** at for at in (0, -1, 1, -20, last - 15, last - 16, last - 17)]
        numbers += [end, *(CONTEXT.add(end, unit) for unit in units)]
        numbers += [CONTEXT.subtract(end, unit) for unit in units]
        if abs(end) < Decimal("1e308"):
            near = float(schema[keyword])
            numbers += [exact(math.nextafter(near, way)) for way in (math.inf, -math.inf)]
    if "multipleOf" in schema:
        step = exact(schema["multipleOf"])
        short = [number for number in numbers if number.adjusted() < 30]
        numbers += [CONTEXT.subtract(one, CONTEXT.remainder(one, step)) for one in short]
        is_wide = False  # multiples have no exponent
    for number in numbers:
        yield format(number, "f")
        if abs(number) < 10**60:
            yield str(int(number))
        if is_wide and number:
            yield format(number.normalize(CONTEXT), "e")


def wrong_verdicts(seed: int, pairs: int) -> tuple[list[str], int]:
    """What the grammar takes and the judge does not, or the other way round.

    Texts with more digits than a float has may be refused: their float has a shorter text. So may
    multiples of many digits.

    Returns:
        The wrong verdicts, and the number of texts that fit.
    """
    dice = random.Random(seed)
    wrong: list[str] = []
    judged = fitting = 0
    while judged < pairs:
        schema = draw_schema(dice)
        grammar = Grammar(schema)
        for text in texts_near(schema, dice):
            if text.startswith("-") and Decimal(text) == 0:
                continue  # 0 has a text without a sign
            judged += 1
            fit, taken = fits(schema, text), grammar.takes(text)
            if fit and not taken:  # the copies share a lexer, which bears only so many long texts
                taken = Grammar(schema).takes(text)
            fitting += fit
            is_long = digits(text) > (17 if schema["type"] == "number" else 4_300)
            is_long = is_long or ("multipleOf" in schema and digits(text) > LEAST_CHARACTERS - 3)
            if taken != fit and (taken or not is_long):
                wrong.append(f"{schema} {text}: fits {fit}, taken {taken}")
    return wrong, fitting
