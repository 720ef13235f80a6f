"""Decimals with any digits, bounds and steps: what the mask allows is read as it is written."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import Field

from agentrt.base.errors import ConstraintError
from agentrt.structured import shape_of
from agentrt.structured.json_schema.declaration import texts_of
from tests.structured.number_judge import Grammar

ENDS = st.decimals(-2000, 2000, places=2, allow_nan=False)
STEPS = st.sampled_from(["0.05", "0.25", "0.5", "1", "2", "5", "7", "12", "0.07", "1.1"])


@st.composite
def limits(draw: Any) -> dict[str, Any]:
    """Limits of a decimal, some of them."""
    found: dict[str, Any] = {}
    low, high = sorted([draw(ENDS), draw(ENDS)])
    if draw(st.booleans()):
        found[draw(st.sampled_from(["ge", "gt"]))] = low
    if draw(st.booleans()):
        found[draw(st.sampled_from(["le", "lt"]))] = high
    if draw(st.booleans()):
        found["decimal_places"] = draw(st.integers(0, 4))
    if draw(st.booleans()):
        fewest = max(1, found.get("decimal_places", 0))
        found["max_digits"] = draw(st.integers(fewest, 9))
    if draw(st.booleans()):
        found["multiple_of"] = Decimal(draw(STEPS))
    return found


@settings(max_examples=25, deadline=None, derandomize=True)
@given(bounds=limits(), numbers=st.lists(ENDS, min_size=4, max_size=12))
def test_a_mask_allows_only_decimals_within_all_limits(
    bounds: dict[str, Any], numbers: list[Decimal]
) -> None:
    """Texts that were drawn from it, and numbers near it, are read; with no digit lost."""
    form = Annotated[Decimal, Field(**bounds)]
    try:
        shape = shape_of(form)
    except ConstraintError as error:  # nothing fits, or too many digits to be written
        assert "is not read" not in error.message  # noqa: PT017
        assume(False)
        return
    assert shape.spec is not None
    near = [*numbers, *(bounds[key] for key in ("ge", "gt", "le", "lt") if key in bounds)]
    near += [one // bounds["multiple_of"] * bounds["multiple_of"] for one in near
             if "multiple_of" in bounds]  # fmt: skip
    plain = [f"{one:f}" for one in near]
    tried = [*plain, *map(json.dumps, plain), *texts_of(shape.spec)]
    grammar = Grammar(shape.schema)
    allowed = [text for text in tried if grammar.takes(text)]
    for text in allowed:
        assert shape.parse(text) == Decimal(text.strip('"'))
