"""How a run is counted: what a call means, which numbers a text says, and whether a result holds each of them."""

import re
from collections.abc import Sequence

from corpus.example import compact
from held_out.questions import Call

MONTH = r"\d{4}-\d{2}"
NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"


def canonical(call: Call) -> str:
    """A call as text; the order of arguments and of compared symbols does not matter, nor does a symbol's case."""
    name, arguments = call
    known: dict[str, object] = {k: v for k, v in sorted(arguments.items()) if v is not None}
    if "symbol" in known:
        known["symbol"] = str(known["symbol"]).upper()
    if isinstance(symbols := known.get("symbols"), list):
        known["symbols"] = sorted(str(symbol).upper() for symbol in symbols)
    if name == "correlation":
        pair = sorted(str(known.pop(key, "")).upper() for key in ("first", "second"))
        known |= {"first": pair[0], "second": pair[1]}
    return f"{name}{compact(known)}"


def numbers(text: str) -> set[str]:
    """The months and the numbers in a text, each in one form."""
    months = set(re.findall(MONTH, text))
    rest = re.sub(MONTH, " ", text)
    return months | {str(float(number)) for number in re.findall(NUMBER, rest)}


def grounded(report: dict[str, object], results: Sequence[object]) -> bool:
    """Whether each number of the report is in a result."""
    return numbers(compact(report)) <= numbers(compact(results))
