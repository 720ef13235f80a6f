"""Tables that the corpus never shows: 20 symbols with dots, dashes and digits; days, weeks, other decades."""

import random
import string
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

COUNT = 20
SHAPES = (
    "AAA",
    "AAAA",
    "AAAA",
    "AAA.A",
    "AA-A",
    "A",
    "AAA9",
    "9999.AA",
    "AAAA-AA",
    "999A",
    "AA.AA",
    "AAAAA",
)


@dataclass(frozen=True, slots=True)
class Invented:
    """A table of random walks, always the same one: a close every so many days."""

    seed: int
    first: date
    last: date
    every_days: int

    def symbols(self) -> tuple[str, ...]:
        """Its symbols, no two alike."""
        rng = random.Random(self.seed)
        found: dict[str, None] = {}
        while len(found) < COUNT:
            shape = SHAPES[len(found) % len(SHAPES)]
            found["".join(_drawn(rng, one) for one in shape)] = None
        return tuple(found)

    def years(self) -> range:
        """The years that it holds whole."""
        return range(self.first.year, self.last.year + 1)

    def write(self, folder: Path) -> Path:
        """The table as a CSV in `folder`."""
        rng = random.Random(self.seed)
        lines = ["symbol,date,price"]
        for symbol in self.symbols():
            price, day = rng.uniform(5, 300), self.first
            while day <= self.last:
                if day.weekday() < 5:
                    lines.append(f"{symbol},{day.isoformat()},{price:.2f}")
                price = max(price * (1 + rng.gauss(0.0004, 0.02) * self.every_days**0.5), 1.0)
                day += timedelta(days=self.every_days)
        file = folder / f"{self.first.year}_{self.every_days}.csv"
        file.write_text("\n".join(lines) + "\n")
        return file


def _drawn(rng: random.Random, one: str) -> str:
    if one == "A":
        return rng.choice(string.ascii_uppercase)
    return rng.choice(string.digits) if one == "9" else one


TABLES = {
    "days of the eighties": Invented(1, date(1985, 1, 2), date(1986, 12, 31), 1),
    "weeks of the tens": Invented(2, date(2013, 1, 4), date(2018, 12, 28), 7),
    "months of the fifties": Invented(3, date(1951, 1, 31), date(1959, 12, 31), 30),
}
