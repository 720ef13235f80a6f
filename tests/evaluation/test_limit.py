"""Limits of `--fail-if`: what is one, and what is refused with its reason."""

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.evaluation.limit import parse_limit


@pytest.mark.parametrize(
    ("text", "figure", "above", "bound", "relative"),
    [
        ("accuracy<-1%", "accuracy", False, -0.01, True),
        ("accuracy < 92.5%", "accuracy", False, 0.925, False),
        ("latency_p95>+10%", "latency_p95", True, 0.1, True),
        ("latency_p50>250ms", "latency_p50", True, 0.25, False),
        ("latency_p95>2s", "latency_p95", True, 2.0, False),
        ("cost>0.5", "cost", True, 0.5, False),
    ],
)
def test_reads(text: str, figure: str, above: bool, bound: float, relative: bool) -> None:
    found = parse_limit(text)
    assert (found.figure, found.above, found.relative) == (figure, above, relative)
    assert found.bound == pytest.approx(bound)
    assert not found.crossed_by(found.bound)
    assert found.crossed_by(found.bound + (1 if above else -1))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "is no limit", "FIGURE<BOUND"),
        ("accuracy", "is no limit", "FIGURE<BOUND"),
        ("accuracy<=1%", "is no limit", "FIGURE<BOUND"),
        ("accuracy<1%%", "is no limit", "FIGURE<BOUND"),
        ("accuracy<nan%", "is no limit", "FIGURE<BOUND"),
        ("acuracy<-1%", "which is no figure", "accuracy, score"),
        ("accuracy<0.9", "has no unit", "given in %"),
        ("latency_p95>2", "has no unit", "s or ms"),
        ("latency_p95>+2s", "has the unit 's'", "a change of latency_p95 is given in %"),
        ("cost>5%", "has the unit '%'", "units of the currency"),
    ],
)
def test_refuses(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_limit(text)
    assert message in raised.value.message
    assert hint in raised.value.hint
