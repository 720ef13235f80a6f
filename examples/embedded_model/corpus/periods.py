"""Periods of time as people write them, with the months they mean.

Conventions: a year named as a start means its January, as an end its December; both ends belong to the period;
a period without a start or an end leaves that argument out.
"""

import random
from dataclasses import dataclass

from corpus.wording import expand

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
SHORT = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Period:
    """A wording and the months it means."""

    text: str
    start: str | None = None
    end: str | None = None
    months: int | None = None

    @property
    def arguments(self) -> dict[str, str | int]:
        """The tool arguments of this period."""
        every = (("start", self.start), ("end", self.end), ("months", self.months))
        return {key: value for key, value in every if value is not None}


def draw(rng: random.Random, first_year: int, last_year: int) -> Period:
    """A period inside the given years, or an open one."""
    kinds = (years, year, months, since, until, part_of_year, whole)
    return rng.choices(kinds, (27, 16, 27, 11, 5, 7, 9))[0](rng, first_year, last_year)


def two_years(rng: random.Random, first: int, last: int) -> tuple[int, int]:
    """Two years in order."""
    low = rng.randint(first, max(first, last - 1))
    return low, rng.randint(min(low + 1, last), last)


def years(rng: random.Random, first: int, last: int) -> Period:
    """A span of whole years."""
    a, b = two_years(rng, first, last)
    text = expand(
        "(from {a} (to|to|to|through|until|till|up to|thru|to the end of) {b}|from {a} to {b}|between {a} and {b}|between {a} and {b}"
        "|{a}-{b}|{a} - {b}|{a}\u2013{b}|{a} to {b}|{a} through {b}|over (the|) (period|years|time|) {a}(-| to | through | - |\u2013){b}"
        "|over the {a}-{b} (period|stretch|window|span|years)|in the (years|period|time|stretch|span) (from|) {a} (to|through|until|-) {b}"
        "|in the years between {a} and {b}|during {a}-{b}|in {a}-{b}|for {a}(-| to | through |\u2013){b}|during the years {a} to {b}"
        "|from (the start of|the beginning of|early|the first month of|) {a} (to|until|through|till) (the end of|late|the close of|) {b}"
        "|for the years {a} (to|through) {b}|across {a}-{b}|starting in {a} and ending in {b}|(within|throughout) {a}-{b}|({a}-{b})"
        "|if we look at {a} to {b}|within the years {a} to {b}|from {a} up to and including {b}|{a} until {b}|{a} till {b})".replace(
            "({a}-{b})", "[{a}-{b}]"
        ),
        rng,
    )
    if b == a + 1 and rng.random() < 0.3:
        text = rng.choice(
            (
                "in {a} and {b}",
                "over {a} and {b}",
                "during {a} and {b}",
                "in the two years {a} and {b}",
            )
        )
    text = text.replace("[", "(").replace("]", ")")
    return Period(text.format(a=a, b=b), f"{a}-01", f"{b}-12")


def year(rng: random.Random, first: int, last: int) -> Period:
    """One year."""
    a = rng.randint(first, last)
    text = expand(
        "(in {a}|in {a}|in {a}|during {a}|over {a}|for {a}|throughout {a}|in the year {a}|over the (course of|year) {a}|within {a}|{a}|in all of {a}"
        "|for the year {a}|across {a}|during the year {a}|in (the whole of|calendar year|the course of) {a}|for (all of|the whole of) {a}|that year, {a}"
        "|from January to December {a}|between January and December {a}|over the twelve months of {a})",
        rng,
    )
    return Period(text.format(a=a), f"{a}-01", f"{a}-12")


def month_name(rng: random.Random, month: int) -> str:
    """A month's name, in one of its forms."""
    name = rng.choices(
        (MONTHS[month], SHORT[month], SHORT[month] + ".", MONTHS[month].lower()), (70, 20, 4, 6)
    )[0]
    return "Sept" if name == "Sep" and rng.random() < 0.4 else name


def month_form(rng: random.Random) -> str:
    """How both months of a range are written."""
    return rng.choices(("name", "iso", "slash", "of", "comma"), (76, 12, 4, 4, 4))[0]


def month_text(rng: random.Random, year: int, month: int, form: str) -> str:
    """One month in `form`; `month` counts from 0."""
    name = month_name(rng, month)
    forms = {
        "name": f"{name} {year}", "iso": f"{year}-{month + 1:02}", "slash": f"{month + 1:02}/{year}",
        "of": f"{name} of {year}", "comma": f"{name}, {year}",
    }  # fmt: skip
    return forms[form]


def iso(year: int, month: int) -> str:
    """`YYYY-MM`; `month` counts from 0."""
    return f"{year}-{month + 1:02}"


def months(rng: random.Random, first: int, last: int) -> Period:
    """A span whose ends are months."""
    a, b = two_years(rng, first, last)
    m, n = rng.randrange(12), rng.randrange(12)
    form = month_form(rng)
    joined = "(from {a} (to|to|to|through|until|till|up to|thru) {b}|between {a} and {b}|{a} to {b}|{a} - {b}|{a} until {b}|{a} through {b}|over {a} to {b}|in the (period|time|months) (from|) {a} (to|until) {b}|during {a} to {b}|from the start of {a} to the end of {b}|starting {a} and ending {b}|for {a} to {b}|in the time between {a} and {b})"
    pick = rng.random()
    if pick < 0.16:  # both months in one year, the year said once
        m, n = sorted((m, n)) if m != n else (0, 11)
        text = expand(joined, rng).format(
            a=month_name(rng, m), b=f"{month_name(rng, n)} {rng.choice(('', '', 'of '))}{a}"
        )
        return Period(text, iso(a, m), iso(a, n))
    if pick < 0.24:  # a month and a year
        text = expand(joined, rng).format(a=month_text(rng, a, m, form), b=b)
        return Period(text, iso(a, m), f"{b}-12")
    if pick < 0.32:
        text = expand(joined, rng).format(a=a, b=month_text(rng, b, n, form))
        return Period(text, f"{a}-01", iso(b, n))
    if pick < 0.40:  # one year, both written out
        b, (m, n) = a, sorted((m, n)) if m != n else (0, 11)
    text = expand(joined, rng).format(a=month_text(rng, a, m, form), b=month_text(rng, b, n, form))
    return Period(text, iso(a, m), iso(b, n))


def since(rng: random.Random, first: int, last: int) -> Period:
    """A period with a start only."""
    a, m = rng.randint(first, last), rng.randrange(12)
    text = expand(
        "(since {a}|since {a}|since {a}|since the (start|beginning) of {a}|from {a} (on|onwards|onward|forward)|starting (in|from|with|) {a}|from {a} to (now|today|the end|the present|date)"
        "|beginning (in|with) {a}|ever since {a}|counting from {a}|{a} onwards|from {a} until (now|today|the end of the data)|from (the start of|) {a} on)",
        rng,
    )
    if rng.random() < 0.5:
        return Period(text.format(a=a), f"{a}-01")
    return Period(text.format(a=month_text(rng, a, m, month_form(rng))), iso(a, m))


def until(rng: random.Random, first: int, last: int) -> Period:
    """A period with an end only."""
    b, n = rng.randint(first, last), rng.randrange(12)
    text = expand(
        "(until|till|up to|up until|through the end of|up to the end of|to the end of|up to and including|until the end of|from the (start|beginning) (to|until|up to)|before the end of) {b}",
        rng,
    )
    if rng.random() < 0.5:
        return Period(text.format(b=b), end=f"{b}-12")
    return Period(text.format(b=month_text(rng, b, n, month_form(rng))), end=iso(b, n))


def part_of_year(rng: random.Random, first: int, last: int) -> Period:
    """A half or a quarter of a year."""
    a = rng.randint(first, last)
    if rng.random() < 0.5:
        half = rng.randrange(2)
        name = ("first", "second")[half] if rng.random() < 0.9 else ("1st", "2nd")[half]
        text = expand(
            f"((in|during|over|for) the {name} half of (the year|) {a}|in H{half + 1} (of|) {a}|H{half + 1} {a}|in the {name} six months of {a})",
            rng,
        )
        return Period(text, iso(a, 6 * half), iso(a, 6 * half + 5))
    quarter = rng.randrange(4)
    name = rng.choice(
        (
            ("first", "second", "third", "fourth"),
            ("1st", "2nd", "3rd", "4th"),
            ("first", "second", "third", "last"),
        )
    )[quarter]
    text = expand(
        f"((in|during|over|for) the {name} quarter of {a}|(in|during|for|over|) Q{quarter + 1} (of|) {a}|in {a} Q{quarter + 1}|in the {name} three months of {a})".replace(
            "in the third three months", "in the third quarter"
        )
        .replace("in the second three months", "in the second quarter")
        .replace("in the fourth three months", "in the fourth quarter"),
        rng,
    )
    return Period(text, iso(a, 3 * quarter), iso(a, 3 * quarter + 2))


def whole(rng: random.Random, first: int, last: int) -> Period:
    """No bounds at all."""
    del first, last
    text = "(||||overall|over the (whole|entire|full|complete) (period|time|history|range|record|data|dataset|table)|over all (the|) (data|years|months)|in total|in all|so far|over time|in the whole (period|table|file)|across all the data|for all dates|over (its|their|the) (whole|full) history|from start to end|in (the|this) data|altogether|over all the time|since (inception|the beginning|the start|the first close|the data begin|listing|its listing|day one)|to date|over the life of the data|as far as the data go|ever)"
    return Period(expand(text, rng))


def one_month(rng: random.Random, first: int, last: int) -> Period:
    """A single month, for prices."""
    a, m = rng.randint(first, last), rng.randrange(12)
    if rng.random() < 0.25:
        at = rng.choice((0, 11))
        edge = expand(
            ("(at|by) the (start|beginning|opening) of {a}", "(at|by) the (end|close) of {a}")[
                at == 11
            ],
            rng,
        )
        return Period(edge.format(a=a), iso(a, at), iso(a, at))
    text = expand("(in|in|in|during|for|as of|at the end of|back in|for the month of) {m}", rng)
    return Period(text.format(m=month_text(rng, a, m, month_form(rng))), iso(a, m), iso(a, m))
