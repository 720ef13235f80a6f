"""Periods counted in months or years from somewhere, and unusual ways to name one."""

import random

from corpus.periods import MONTHS, Period, iso, month_form, month_name, month_text
from corpus.wording import expand

NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
RECENT = "(last|past|last|past|most recent|latest|final|previous|recent)"


def counted(rng: random.Random) -> tuple[str, int]:
    """A number of years or months in words, and the months it means."""
    if rng.random() < 0.6:
        n = rng.choices((2, 3, 4, 5, 6, 7, 8, 9, 10), (20, 22, 12, 24, 6, 5, 4, 2, 10))[0]
        return f"{_number(rng, n)} (calendar |full |whole ||||)years", 12 * n
    n = rng.choice(
        (
            2,
            3,
            3,
            4,
            5,
            6,
            6,
            6,
            7,
            8,
            9,
            9,
            10,
            11,
            12,
            12,
            12,
            15,
            18,
            18,
            20,
            24,
            24,
            30,
            36,
            48,
            60,
        )
    )
    return f"{_number(rng, n)} months", n


def _number(rng: random.Random, n: int) -> str:
    return NUMBERS[n] if n < len(NUMBERS) and rng.random() < 0.6 else str(n)


def recent(rng: random.Random, first: int, last: int) -> Period:
    """So many months back from the end of the data."""
    del first, last
    if rng.random() < 0.3:
        text, months = rng.choice((
            (f"(in|over|during|for) the {RECENT} (year|year of (the |)data|year of the table|year in the data|one year|1 year)", 12),
            (f"(in|over|during|for) the {RECENT} quarter", 3),
            (f"(in|over|during|for) the {RECENT} half year", 6),
            (f"(in|over|during|for) the {RECENT} month", 1),
            ("(in|over|during|for) the (last|past) decade", 120),
            ("over a year, up to the latest close", 12),
            ("(last year|past year|trailing year|year to date back twelve months|trailing twelve months|TTM|1y|12m)", 12),
            ("(3y|trailing three years|3 year)", 36), ("(5y|trailing five years|5 year)", 60), ("(6m|six month)", 6),
        ))  # fmt: skip
        return Period(expand(text, rng), months=months)
    text, months = counted(rng)
    ending = "(|||| of the data| of data| in the data| in the table| on record| available| that the table has| up to the end)"
    return Period(expand(f"(in|over|during|for|over|within) the {RECENT} {text}{ending}", rng), months=months)  # fmt: skip


def onward(rng: random.Random, first: int, last: int) -> Period:
    """So many months from a start."""
    a, m = rng.randint(first, last), rng.randrange(12)
    text, months = counted(rng)
    start, at = (f"{a}-01", str(a)) if rng.random() < 0.45 else (iso(a, m), month_text(rng, a, m, month_form(rng)))  # fmt: skip
    pattern = f"((in|over|during|for) the {text} (from|starting in|beginning in|starting with|that began in|that start in|beginning with|from the start of) {at}|for {text} (from|starting in|beginning in|from the start of) {at}|over {text} (from|beginning|starting) {at}|from {at} for {text}|(in|over) the (first |){text} (from|since|counted from) {at}|starting {at}, for {text}|{text} from {at})"
    if rng.random() < 0.12 and a < last:
        return Period(expand(f"(in|over|during|for) the {text} (after|following) (the end of |) {a}", rng), f"{a + 1}-01", months=months)  # fmt: skip
    return Period(expand(pattern, rng), start, months=months)


def backward(rng: random.Random, first: int, last: int) -> Period:
    """So many months up to an end."""
    b, n = rng.randint(first, last), rng.randrange(12)
    text, months = counted(rng)
    end, at = (f"{b}-12", str(b)) if rng.random() < 0.45 else (iso(b, n), month_text(rng, b, n, month_form(rng)))  # fmt: skip
    if rng.random() < 0.15 and b > first:
        return Period(expand(f"(in|over|during|for) the {text} before {b}", rng), end=f"{b - 1}-12", months=months)  # fmt: skip
    pattern = f"((in|over|during|for) the {text} (to|ending in|ending|up to|up to the end of|to the end of|until|through|that ended in|ended|up to and including) {at}|over {text} (to|ending in|up to|until) {at}|(in|over) the (last |) {text} (up to|to|until|ending) {at}|{text} (ending|to|up to) {at})"
    return Period(expand(pattern, rng), end=end, months=months)


def unusual(rng: random.Random, first: int, last: int) -> Period:
    """Parts of a year, years in a row, two-digit years, decades, ends of years, quarters as ends."""
    kinds = (
        edge_of_year,
        season,
        row_of_years,
        short_years,
        decade,
        year_ends,
        quarters,
        before,
        middle,
        halves,
    )
    return rng.choices(kinds, (22, 10, 12, 12, 9, 12, 10, 6, 5, 6))[0](rng, first, last)


def edge_of_year(rng: random.Random, first: int, last: int) -> Period:
    """The first or the last months of a year."""
    a, n = rng.randint(first, last), rng.choice((2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11))
    count = _number(rng, n)
    if rng.random() < 0.5:
        text = f"(in|over|during|for) the (first|opening|initial) {count} months of (the year |){a}"
        return Period(expand(text, rng), iso(a, 0), iso(a, n - 1))
    text = f"(in|over|during|for) the (last|final|closing) {count} months of (the year |){a}"
    return Period(expand(text, rng), iso(a, 12 - n), iso(a, 11))


def season(rng: random.Random, first: int, last: int) -> Period:
    """Spring, summer or autumn of a year."""
    a, at = rng.randint(first, last), rng.randrange(3)
    name = ("spring", "summer", rng.choice(("autumn", "fall")))[at]
    text = expand(f"((in|during|over) (the |){name} (of |){a}|{name} {a}|in {a}'s {name})", rng)
    return Period(text, iso(a, 2 + 3 * at), iso(a, 4 + 3 * at))


def row_of_years(rng: random.Random, first: int, last: int) -> Period:
    """Two to five years in a row, each said."""
    count = min(rng.choice((2, 2, 3, 3, 4, 5)), last - first + 1)
    a = rng.randint(first, max(first, last - count + 1))
    years = [str(a + i) for i in range(count)]
    listed = ", ".join(years[:-1]) + rng.choice((" and ", " and ", " & ", " plus ", ", ")) + years[-1] if count > 1 else years[0]  # fmt: skip
    text = expand(f"(in|over|during|for|across) (the years |the years |){listed}(| together| combined| taken together| as a whole|)", rng)  # fmt: skip
    return Period(text, f"{a}-01", f"{a + count - 1}-12")


def short_years(rng: random.Random, first: int, last: int) -> Period:
    """Years of two digits."""
    a = rng.randint(first, last)
    b = rng.randint(a, last)
    x, y = f"{a % 100:02}", f"{b % 100:02}"
    if a == b:
        return Period(expand(f"(in|during|over|for|throughout) '{x}", rng), f"{a}-01", f"{a}-12")
    text = expand(f"(from '{x} to '{y}|'{x}-'{y}|'{x} to '{y}|between '{x} and '{y}|from '{x} through '{y}|{a}-{y}|{a}/{y}|over {a}-{y}|from {a} to '{y})", rng)  # fmt: skip
    return Period(text, f"{a}-01", f"{b}-12")


DECADES = {1920: "twenties", 1930: "thirties", 1940: "forties", 1950: "fifties", 1960: "sixties", 1970: "seventies", 1980: "eighties", 1990: "nineties", 2000: "noughties"}  # fmt: skip


def decade(rng: random.Random, first: int, last: int) -> Period:
    """Ten years by their name."""
    a = rng.randint(first, last) // 10 * 10
    if rng.random() < 0.4:
        a = rng.randrange(1920, 2070, 10)
    word = DECADES.get(a, f"{a}s")
    short = f"{a % 100:02}s" if 1950 <= a < 2000 else f"{a}s"
    text = expand(f"(in|during|over|throughout|for|across) the (|whole |entire ||)({a}s|{word}|{word}|{short}|decade from {a} to {a + 9})", rng)  # fmt: skip
    return Period(text, f"{a}-01", f"{a + 9}-12")


def year_ends(rng: random.Random, first: int, last: int) -> Period:
    """From the last close of a year to the last close of another."""
    a = rng.randint(first, max(first, last - 1))
    b = rng.randint(min(a + 1, last), last)
    end = rng.choice(("the end of {}", "the end of {}", "end of {}", "year-end {}", "the close of {}", "the last close of {}", "late December {}", "31 December {}", "New Year's Eve {}"))  # fmt: skip
    x, y = end.format(a), end.format(b)
    text = expand(f"(from {x} to {y}|between {x} and {y}|from {x} until {y}|{x} to {y}|from {x} through {y})", rng)  # fmt: skip
    return Period(text, f"{a + 1}-01", f"{b}-12")


def quarters(rng: random.Random, first: int, last: int) -> Period:
    """From a quarter to another."""
    a = rng.randint(first, last)
    b = rng.randint(a, last)
    q, r = rng.randrange(4), rng.randrange(4)
    if a == b:
        q, r = sorted((q, r))
    names = ("first", "second", "third", "fourth")
    if rng.random() < 0.6:
        x, y = f"Q{q + 1} {a}", f"Q{r + 1} {b}"
    else:
        x, y = f"the {names[q]} quarter of {a}", f"the {names[r]} quarter of {b}"
    text = expand(f"(from {x} to {y}|between {x} and {y}|from {x} through {y}|{x} to {y}|{x} - {y})", rng)  # fmt: skip
    return Period(text, iso(a, 3 * q), iso(b, 3 * r + 2))


def before(rng: random.Random, first: int, last: int) -> Period:
    """Everything before a year, or a year beside another."""
    a = rng.randint(min(first + 1, last), last)
    pick = rng.random()
    if pick < 0.5:
        return Period(expand(f"(before|prior to|up to the start of|in the years before|until just before) {a}", rng), end=f"{a - 1}-12")  # fmt: skip
    if pick < 0.75:
        return Period(f"in the year before {a}", f"{a - 1}-01", f"{a - 1}-12")
    return Period(f"in the year after {a - 1}", f"{a}-01", f"{a}-12")


def middle(rng: random.Random, first: int, last: int) -> Period:
    """Between the middles of two years."""
    a = rng.randint(first, max(first, last - 1))
    b = rng.randint(min(a + 1, last), last)
    mid = rng.choice(("mid-{}", "mid {}", "the middle of {}"))
    text = expand(f"(from {mid.format(a)} to {mid.format(b)}|between {mid.format(a)} and {mid.format(b)})", rng)  # fmt: skip
    return Period(text, iso(a, 6), iso(b, 5))


def halves(rng: random.Random, first: int, last: int) -> Period:
    """From a half of a year into another year."""
    a = rng.randint(first, max(first, last - 1))
    b = rng.randint(min(a + 1, last), last)
    half, name = rng.choice(((0, "first"), (1, "second")))
    x, y = rng.choice(((f"the {name} half of {a}", f"the end of {b}"), (f"H{half + 1} {a}", f"H2 {b}"), (f"the {name} half of {a}", f"the second half of {b}")))  # fmt: skip
    text = expand(f"(from {x} (to|through|until) {y}|between {x} and {y})", rng)
    return Period(text, iso(a, 6 * half), f"{b}-12")


def a_month(rng: random.Random, first: int, last: int) -> Period:
    """One month, of any figure."""
    a, m = rng.randint(first, last), rng.randrange(12)
    name = MONTHS[m] if rng.random() < 0.5 else month_name(rng, m)
    text = expand(f"((in|during|over|for) {name} (of |){a}|in the month of {name} {a}|within {name} {a})", rng)  # fmt: skip
    return Period(text, iso(a, m), iso(a, m))
