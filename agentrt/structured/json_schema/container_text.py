"""Lark text of what stands in arrays and objects, from the expressions of items and fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrt.structured.json_schema.lark_text import Inexpressible, listed

LONG = 200
"""Length of text that gets a rule of its own instead of being repeated."""

Pair = tuple[str, bool]
"""The expression of a name with its value, and whether the field is required."""


def items_text(
    first: Sequence[str | None], item: str | None, comma: str, fewest: int, most: int | None
) -> str | None:
    """The items of an array, one or more; None if there are none.

    Args:
        first: Expressions of the first items; None stands for one that nothing fits.
        item: Expression of the others.
        comma: Text between two items.
        fewest: Minimum number of items, 1 or more.
        most: Maximum number of items.
    """
    left = None if most is None else most - len(first)
    text: str | None = None
    if item is not None and left != 0:
        text = listed(item, comma, max(0, fewest - len(first)), left, goes_on=bool(first))
    elif fewest <= len(first):
        text = ""
    for at in reversed(range(len(first))):
        place = first[at]
        if place is None or text is None:
            text = None if at < fewest else ""
            continue
        text = f"{place} {text}" if at == 0 else f"{comma} {place} {text}"
        text = text if at < fewest else f"({text})?"
    return text


def containing_text(held: str, other: str | None, comma: str, fewest: int, most: int | None) -> str:
    """The items of an array, one or more, of which a number are `held`.

    Args:
        held: Expression of the items that are counted.
        other: Expression of any other item, or of any at all if there is no maximum.
        comma: Text between two items.
        fewest: Minimum number of items that are held.
        most: Maximum number of them, 1 or more.
    """
    others = "" if other is None else f"({comma} {other})*"
    before = "" if other is None else f"({other} {comma})*"
    least = max(0, fewest - 1)
    again = least if most is None else most - 1
    more = f"({others} {comma} {held}){{{least},{again}}}" if again else ""
    text = f"{before} {held} {more} {others}"
    return text if fewest or other is None else f"({text} | {other} {others})"


def fields_text(
    pairs: Sequence[Pair], other: str | None, comma: str, shared: Callable[[str], str]
) -> str | None:
    """The fields of an object, one or more, in order, others behind them; None if there are none.

    Args:
        pairs: The named fields.
        other: Expression of another name with its value.
        comma: Text between two fields.
        shared: Name of a rule with this text.
    """
    rest, first = "", None  # after another pair, and one or more
    if other is not None:
        rest, first = f"({comma} {other})*", f"{other} ({comma} {other})*"
    for pair, is_required in reversed(pairs):
        after = shared(rest) if len(rest) > LONG else rest
        whole = f"{pair} {after}"
        if is_required:
            first, rest = whole, f"{comma} {whole}"
            continue
        first = whole if first is None else f"({whole} | {first})"
        first = shared(first) if len(first) > LONG else first
        rest = f"({comma} {pair})? {after}"
    return first


def counted_fields_text(
    pairs: Sequence[Pair], other: str | None, comma: str, fewest: int, most: int | None
) -> str | None:
    """A number of fields, one or more; None if there are none.

    Raises:
        Inexpressible: A named field is optional.
    """
    if any(not is_required for _, is_required in pairs):
        raise Inexpressible("there are no rules for a number of optional properties")
    left = None if most is None else most - len(pairs)
    fewest -= len(pairs)
    if left is not None and left < max(0, fewest):
        return None
    inner = f" {comma} ".join(pair for pair, _ in pairs)
    if other is not None and left != 0:
        fewest = max(fewest, 0 if pairs else 1)
        return f"{inner} {listed(other, comma, fewest, left, goes_on=bool(pairs))}"
    return None if fewest > 0 else inner or None
