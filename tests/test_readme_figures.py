"""Every figure of the documentation's numbers stands in a committed file, or is listed without.

`traces/bench/README.md` has the table of places: for each figure the file and the place in it. A
place is a path through the JSON (`rows/0/ratios/hf/decode`; `arm=NAME` finds an element of a list
by a field), `max PATH` with `*` in the path, or `PATH by PATH` for a quotient.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "traces" / "bench"
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")
NONE = "none"


def table_below(path: Path, heading: str) -> list[list[str]]:
    """Rows of the first table below a heading, without its head."""
    text = path.read_text("utf-8").partition(f"\n{heading}\n")[2]
    assert text, f"{path} has no {heading}"
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif rows:
            break
    return rows[2:]


def numbers() -> list[tuple[str, list[str]]]:
    """By row of the numbers, the figures in their order."""
    rows = table_below(ROOT / "docs" / "numbers.md", "## The figures")
    return [(what, NUMBER.findall(figures)) for what, figures, _ in rows]


def places() -> list[tuple[str, str, str, str]]:
    rows = table_below(BENCH / "README.md", "## Places of the figures")
    return [(what, figure, file.strip("`"), place.strip("`")) for what, figure, file, place in rows]


@cache
def content(file: str) -> Any:
    return json.loads((BENCH / file).read_text("utf-8"))


def values_at(found: Any, path: str) -> list[float]:
    """Numbers at a path, several if it has a star."""
    if not path:
        return [float(found)]
    step, _, rest = path.partition("/")
    if step == "*":
        every = found.values() if isinstance(found, dict) else found
        return [value for one in every for value in values_at(one, rest)]
    name, equals, wanted = step.partition("=")
    if isinstance(found, list) and equals:
        return values_at(next(one for one in found if one[name] == wanted), rest)
    return values_at(found[int(step)] if isinstance(found, list) else found[step], rest)


def value_of(found: Any, place: str) -> float:
    above, by, below = place.partition(" by ")
    if by:
        return value_of(found, above) / value_of(found, below)
    if place.startswith("max "):
        return max(abs(value) for value in values_at(found, place.removeprefix("max ")))
    (value,) = values_at(found, place)
    return value


def rounded(value: float, figure: str) -> str:
    """A value as the figure is written: `12.3`, or `12.3 %` for a share."""
    number, _, unit = figure.partition(" ")
    return f"{value * 100 if unit == '%' else value:.{len(number.partition('.')[2])}f}"


def test_every_figure_has_a_place_or_is_listed_without() -> None:
    """In the order of the rows, so that a figure is not confused with an equal one."""
    listed = places()
    for what, figures in numbers():
        mine = [one for one in listed if what.startswith(one[0])]
        assert mine, f"no line in the table of places begins the row {what!r}"
        found = [NUMBER.findall(figure)[0] for _, figure, file, _ in mine if file != NONE]
        assert [one for one in mine if one[2] == NONE] or found == figures, what
        assert all(one in figures for one in found), what


def test_the_readme_has_ten_rows_out_of_them() -> None:
    rows = table_below(ROOT / "README.md", "## Numbers")
    assert len(rows) == 10
    known = [set(figures) for _, figures in numbers()]
    for what, figures in rows:
        assert any(set(NUMBER.findall(figures)) <= one for one in known), what


def test_no_place_is_left_over() -> None:
    rows = [what for what, _ in numbers()]
    for what, *_ in places():
        assert sum(row.startswith(what) for row in rows) == 1, what


@pytest.mark.parametrize(
    ("what", "figure", "file", "place"),
    [one for one in places() if one[2] != NONE],
    ids=lambda value: str(value)[:40],
)
def test_a_figure_is_what_its_file_says(what: str, figure: str, file: str, place: str) -> None:
    assert rounded(value_of(content(file), place), figure) == figure.partition(" ")[0], what


def test_a_figure_without_a_file_says_why() -> None:
    for what, _, file, place in places():
        if file == NONE:
            assert len(place) > 10, f"{what}: say why there is no file"


def test_a_figure_has_its_place_where_a_file_holds_it() -> None:
    for what, _, file, place in places():
        if file == NONE:
            held = re.findall(r"[\w-]+\.json", place)
            assert not held, f"{what}: give the place in {', '.join(held)}"


def test_places_are_read() -> None:
    found = {"rows": [{"arm": "a", "x": 1.0}, {"arm": "b", "x": -4.0}]}
    assert value_of(found, "rows/1/x") == -4.0
    assert value_of(found, "rows/arm=a/x") == 1.0
    assert value_of(found, "max rows/*/x") == 4.0
    assert value_of(found, "rows/1/x by rows/0/x") == -4.0
    assert rounded(0.0986, "9.9 %") == "9.9"
