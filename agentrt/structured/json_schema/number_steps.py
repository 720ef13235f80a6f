"""Regexes of the multiples of a number (`multipleOf`), over plain decimal texts.

A multiple of 2 or 5 is told by its last digits, a multiple of 3 by the remainder of its digits: ten
leaves the remainder 1, so that the decimal point does not matter. Other factors need automata whose
regexes are too long.
"""

from __future__ import annotations

from fractions import Fraction

MAX_ENDINGS = 1_000
"""Largest number of endings that are written out."""

_THREES = (
    r"(?:[0369.-]|[258][0369.]*[147]|(?:[147]|[258][0369.]*[258])"
    r"(?:[0369.]|[147][0369.]*[258])*(?:[258]|[147][0369.]*[147]))*"
)
"""Texts with a sum of digits that is a multiple of 3."""


def step_terms(step: Fraction) -> tuple[str, ...] | None:
    """Regexes that the plain text of a multiple of `step` matches, all of them.

    None if there are none of a reasonable length.
    """
    rest, decimal_part = step.numerator, Fraction(1, step.denominator)
    for prime in (2, 5):
        while rest % prime == 0:
            rest, decimal_part = rest // prime, decimal_part * prime
    if rest not in (1, 3):
        return None
    ending = _endings(decimal_part)
    if ending is None:
        return None
    return (ending, _THREES) if rest == 3 else (ending,)


def _endings(step: Fraction) -> str | None:
    """Numbers with the last digits of a multiple of `step`, which has no factors but 2 and 5."""
    places = 0
    while (step * 10**places).denominator != 1:
        places += 1
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
