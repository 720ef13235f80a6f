"""Texts of the multiples of a number (`multipleOf`), over plain decimal texts.

A multiple of 2 or 5 is told by its last digits, any other by the remainder of its digits: such a
factor has none in common with ten, so that the decimal point does not matter. The remainder of 3
has a short regex, those of other factors have chains of rules. Few multiples between two ends are
listed, whatever their factors are.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from agentrt.base.record import record
from agentrt.structured.json_schema.digit_chains import DigitChain, LastDigits, LeadingDigits
from agentrt.structured.json_schema.number_range import DecimalRange
from agentrt.structured.json_schema.number_text import decimal_text
from agentrt.structured.json_schema.regex_text import escape_regex

MAX_ENDINGS = 1_000
"""Largest number of endings that are written out."""

MAX_LISTED = 1_000
"""Largest number of multiples that are listed."""

MAX_RULES = 3_000
"""Largest number of rules of the chains of a step: they compile in about 150 ms."""

EXACT_CHARACTERS = 40
"""Numbers of so many characters all have a chain, or none has."""

MAX_CHARACTERS = 100
"""Characters of the chains of longer numbers if there are few rules for each; zeros may follow."""

LEAST_CHARACTERS = 24
"""Characters of the chains of longer numbers if there are many."""

_FEW_RULES = 1_000

_THREES = (
    r"(?:[0369.-]|[258][0369.]*[147]|(?:[147]|[258][0369.]*[258])"
    r"(?:[0369.]|[147][0369.]*[258])*(?:[258]|[147][0369.]*[147]))*"
)
"""Texts with a sum of digits that is a multiple of 3."""


@record
class StepTerms:
    """Terms of the plain texts of multiples, which match all of them.

    Attributes:
        patterns: Regexes.
        chains: Chains of rules, which are no regexes.
    """

    patterns: tuple[str, ...] = ()
    chains: tuple[DigitChain, ...] = ()


def step_terms(numbers: DecimalRange, *, by_rules: bool = True) -> StepTerms | None:
    """Terms of the multiples in a range; its ends may be left out.

    By rules, numbers of more than `EXACT_CHARACTERS` may be left out.

    Args:
        numbers: The range, with a step.
        by_rules: Whether chains of rules may be used.

    Returns:
        None if nothing of a reasonable size matches them.
    """
    step = numbers.step
    assert step is not None
    other, decimal_part = step.numerator, Fraction(1, step.denominator)
    for prime in (2, 5):
        while other % prime == 0:
            other, decimal_part = other // prime, decimal_part * prime
    ending = _endings(decimal_part)
    if ending is not None and other in (1, 3):
        return StepTerms((ending, _THREES) if other == 3 else (ending,))
    listed = _listed(numbers)
    if listed is not None:
        return StepTerms((listed,))
    places = _places(decimal_part)
    if not by_rules:
        return None
    last = [] if ending is not None else [LastDigits(int(decimal_part * 10**places), places)]
    most = _whole_digits(numbers) + (1 + places if places else 0)
    room = MAX_RULES - sum(chain.states for chain in last)
    leading = _leading(other, most, room, has_point=bool(places))
    if leading is None:
        return None
    return StepTerms(() if ending is None else (ending,), (*last, *leading))


def _leading(
    divisor: int, most: int, room: int, *, has_point: bool
) -> tuple[LeadingDigits, ...] | None:
    """The chains of the factors of a divisor; None if there is no room for their rules."""
    if divisor > MAX_RULES**2 or room < 0:
        return None
    factors = list(_prime_powers(divisor))
    rules = sum(factors)
    if most > EXACT_CHARACTERS:
        fitting = _FEW_RULES // max(1, rules)
        most = min(most, MAX_CHARACTERS, max(LEAST_CHARACTERS, fitting))
    if most * rules > room:
        return None
    return tuple(LeadingDigits(factor, most, has_point) for factor in factors)


def _prime_powers(number: int) -> Iterator[int]:
    """Powers of different primes whose product is a number without the factors 2 and 5."""
    prime = 3
    while prime * prime <= number:
        power = 1
        while number % prime == 0:
            number, power = number // prime, power * prime
        if power > 1:
            yield power
        prime += 2
    if number > 1:
        yield number


def _whole_digits(numbers: DecimalRange) -> int:
    """Digits before the point of the numbers of a range; `MAX_CHARACTERS` if it has no end."""
    if numbers.low is None or numbers.high is None:
        return MAX_CHARACTERS
    return len(str(int(max(abs(numbers.low.at), abs(numbers.high.at)))))


def _listed(numbers: DecimalRange) -> str | None:
    """The multiples of a range; None if there are none, or many."""
    multiples = numbers.multiples()
    if multiples is None or not multiples or multiples[-1] - multiples[0] >= MAX_LISTED:
        return None
    assert numbers.step is not None
    texts = [decimal_text(n * numbers.step) for n in multiples]
    wholes = "|".join(text for text in texts if "." not in text)
    parts = "|".join(escape_regex(text) for text in texts if "." in text)
    options = [rf"(?:{wholes})(?:\.0+)?"] if wholes else []
    return "|".join([*options, *([f"(?:{parts})0*"] if parts else [])])


def _places(step: Fraction) -> int:
    """Digits behind the point of a finite decimal."""
    places = 0
    while (step * 10**places).denominator != 1:
        places += 1
    return places


def _endings(step: Fraction) -> str | None:
    """Numbers with the last digits of a multiple of `step`, which has no factors but 2 and 5."""
    places = _places(step)
    cycle = -places  # multiples repeat with this power of ten
    while (Fraction(10) ** cycle / step).denominator != 1:
        cycle += 1
    count = int(Fraction(10) ** cycle / step)
    if count > MAX_ENDINGS:
        return None
    scaled = int(step * 10**places)
    width = cycle + places
    texts = [str(n * scaled).rjust(width, "0") if width else "" for n in range(count)]
    if cycle <= 0:
        return rf"-?[0-9]+(?:\.(?:{'|'.join(_fractions(texts, -cycle))}))?"
    by_fraction: dict[str, list[str]] = {}
    for text in texts:
        by_fraction.setdefault(text[cycle:].rstrip("0"), []).append(text[:cycle])
    options = []
    for fraction, wholes in by_fraction.items():
        long = f"[0-9]*(?:{'|'.join(wholes)})"
        short = "|".join(str(int(whole)) for whole in wholes)
        after = rf"\.{fraction}0*" if fraction else r"(?:\.0+)?"
        options.append(f"-?(?:{long}|{short}){after}")
    return "|".join(options)


def _fractions(texts: list[str], free: int) -> list[str]:
    """Fractions with `free` digits and then one of `texts`; missing digits are zeros."""
    found = [rf"[0-9]{{1,{free}}}"] if free else []
    before = rf"[0-9]{{{free}}}" if free else ""
    for text in texts:
        digits = text.rstrip("0")
        found.append(f"{before}{digits}0*" if digits else f"{before}0+")
    return found
