"""Periods without a preposition, and moments at which somebody buys and sells."""

import random

from corpus.periods import Period, iso, month_form, month_text
from corpus.relative_periods import NUMBERS
from corpus.wording import expand

HALVES = ("first", "second")
QUARTERS = ("first", "second", "third", "fourth")


def draw(rng: random.Random, first: int, last: int) -> Period:
    """A bare period: `1998`, `the first half of 1998`, `1998 to 2001`."""
    kinds = (year, span, half, quarter, month, season, row)
    return rng.choices(kinds, (40, 20, 10, 10, 8, 4, 8))[0](rng, first, last)


def year(rng: random.Random, first: int, last: int) -> Period:
    """One year."""
    a = rng.randint(first, last)
    text = expand(f"({a}|{a}|{a}|{a}|the year {a}|calendar {a}|all of {a}|the whole of {a})", rng)
    return Period(text, f"{a}-01", f"{a}-12")


def span(rng: random.Random, first: int, last: int) -> Period:
    """Whole years, or months of two years."""
    a = rng.randint(first, max(first, last - 1))
    b = rng.randint(min(a + 1, last), last)
    if a == b:
        return year(rng, first, last)
    if rng.random() < 0.25:
        m, n, form = rng.randrange(12), rng.randrange(12), month_form(rng)
        text = f"{month_text(rng, a, m, form)} (to|through|until|-) {month_text(rng, b, n, form)}"
        return Period(expand(text, rng), iso(a, m), iso(b, n))
    text = f"({a} to {b}|{a} to {b}|{a} through {b}|{a}-{b}|{a}\u2013{b}|the years {a} to {b}|the period {a} to {b}|the stretch from {a} to {b}|the time between {a} and {b}|{a} until {b})"  # fmt: skip
    return Period(expand(text, rng), f"{a}-01", f"{b}-12")


def half(rng: random.Random, first: int, last: int, which: int | None = None) -> Period:
    """Half a year."""
    a, n = rng.randint(first, last), rng.randrange(2) if which is None else which
    text = f"(the {HALVES[n]} half of {a}|the {HALVES[n]} half of {a}|H{n + 1} {a}|the {HALVES[n]} six months of {a})"
    return Period(expand(text, rng).replace("second six", "last six"), iso(a, 6 * n), iso(a, 6 * n + 5))  # fmt: skip


def quarter(rng: random.Random, first: int, last: int, which: int | None = None) -> Period:
    """A quarter of a year."""
    a, n = rng.randint(first, last), rng.randrange(4) if which is None else which
    text = f"(the {QUARTERS[n]} quarter of {a}|Q{n + 1} {a}|Q{n + 1} of {a}|{a} Q{n + 1})"
    return Period(expand(text, rng), iso(a, 3 * n), iso(a, 3 * n + 2))


def month(rng: random.Random, first: int, last: int) -> Period:
    """One month."""
    a, m = rng.randint(first, last), rng.randrange(12)
    return Period(month_text(rng, a, m, month_form(rng)), iso(a, m), iso(a, m))


def season(rng: random.Random, first: int, last: int, which: int | None = None) -> Period:
    """Spring, summer or autumn, its months said in a part of the cases."""
    a, n = rng.randint(first, last), rng.randrange(3) if which is None else which
    name = ("spring", "summer", rng.choice(("autumn", "fall")))[n]
    said = ("March to May", "June to August", "September to November")[n]
    text = f"(the {name} of {a}|{name} {a}|the {name} of {a} ~{said}~|{said} {a})"
    return Period(
        expand(text, rng).replace(" ~", " (").replace("~", ")"),
        iso(a, 2 + 3 * n),
        iso(a, 4 + 3 * n),
    )


def row(rng: random.Random, first: int, last: int) -> Period:
    """Some years in a row, counted or listed."""
    count = min(rng.choice((2, 2, 3, 3, 4, 5)), last - first + 1)
    a = rng.randint(first, max(first, last - count + 1))
    b = a + count - 1
    if count < 2:
        return year(rng, first, last)
    number = rng.choice((NUMBERS[count], str(count)))
    text = f"(the {number} years from {a} to {b}|the {number} years {a} to {b}|the {number} years ending in {b}|the {number} years starting in {a})"
    if count == 2:
        text = f"({a} and {b}|the two years {a} and {b}|the years {a} and {b})"
    return Period(expand(text, rng), f"{a}-01", f"{b}-12")


def one_month(rng: random.Random, first: int, last: int) -> Period:
    """One month for a price: by its name, or as an end of a year."""
    a = rng.randint(first, last)
    if rng.random() < 0.3:
        end = rng.choice(
            ("the end of {}", "the close of {}", "year-end {}", "the end of December {}")
        )
        return Period(end.format(a), iso(a, 11), iso(a, 11))
    m = rng.randrange(12)
    name = month_text(rng, a, m, month_form(rng))
    return Period(rng.choice((name, name, name, f"the end of {name}")), iso(a, m), iso(a, m))


def two(rng: random.Random, first: int, last: int) -> tuple[Period, Period]:
    """Two periods to compare: years, the same part of two years, two parts of one year, any two."""
    pick = rng.random()
    if pick < 0.38 or first == last:
        return year(rng, first, last), year(rng, first, last)
    if pick < 0.78:
        part, count = rng.choices(((half, 2), (quarter, 4), (season, 3)), (42, 42, 16))[0]
        n, m = rng.sample(range(count), 2)
        a, b = rng.sample(range(first, last + 1), 2)
        one = part(rng, a, a, n)
        if rng.random() < 0.4:
            return one, part(rng, b, b, n)
        other = part(rng, a, a, m)
        if one.text.startswith("the ") and other.text.endswith(f" of {a}") and rng.random() < 0.5:
            one = Period(one.text.removesuffix(f" of {a}"), one.start, one.end)
        return one, other
    return draw(rng, first, last), draw(rng, first, last)


def bought_and_sold(rng: random.Random, first: int, last: int) -> tuple[str, str, Period]:
    """The moments of buying and selling, and the months between: those after the one, up to the other."""
    a = rng.randint(first, max(first, last - 1))
    b = rng.randint(min(a + 1, last), last)
    if a == b or rng.random() < 0.35:
        m, n = (
            sorted(rng.sample(range(12), 2)) if a == b else (rng.randrange(12), rng.randrange(12))
        )
        form = month_form(rng)
        said = [_moment(rng, month_text(rng, y, at, form)) for y, at in ((a, m), (b, n))]
        after = iso(a, m + 1) if m < 11 else iso(a + 1, 0)
        return said[0], said[1], Period("", after, iso(b, n))
    return _moment(rng, str(a)), _moment(rng, str(b)), Period("", f"{a + 1}-01", f"{b}-12")


def _moment(rng: random.Random, at: str) -> str:
    return rng.choice(("the end of {}", "the end of {}", "the close of {}", "the last close of {}", "the final close of {}")).format(at)  # fmt: skip
