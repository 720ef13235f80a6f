"""Limits of `--fail-if`: a figure, a direction and a bound, maybe against another config."""

from __future__ import annotations

import re
from typing import Literal, cast, get_args

from agentrt.base.errors import UsageError
from agentrt.base.record import record

Figure = Literal["accuracy", "score", "fidelity", "latency_p50", "latency_p95", "cost"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
SHARES: tuple[Figure, ...] = ("accuracy", "score", "fidelity")

_FORM = re.compile(r"\s*([a-z_0-9]+)\s*([<>])\s*([+-]?)(\d+(?:\.\d+)?)(%|ms|s)?\s*")
_HINT = "give FIGURE<BOUND or FIGURE>BOUND: accuracy<90%, accuracy<-1%, latency_p95>+10%, cost>0.5"


@record
class Limit:
    """A limit of one figure.

    Attributes:
        figure: Figure that is bounded.
        above: True if values above the bound fail, False if those below do.
        bound: The bound: a share, seconds, or units of the currency.
        relative: True if it bounds the change against the first configuration: a difference of
            shares, and the relative change of latencies and costs.
        text: The limit as it was written.
    """

    figure: Figure
    above: bool
    bound: float
    relative: bool
    text: str

    def crossed_by(self, value: float) -> bool:
        """Whether a value is beyond the bound; the bound itself is allowed."""
        return value > self.bound if self.above else value < self.bound


def parse_limit(text: str) -> Limit:
    """The limit that a text states.

    A sign makes it relative: `accuracy<-1%` is a fall by more than one point, `latency_p95>+10%` is
    a tenth more than the first configuration takes.

    Args:
        text: `FIGURE<BOUND` or `FIGURE>BOUND`.

    Raises:
        UsageError: The text is no limit, or its unit is not that of the figure.

    Example:
        >>> limit = parse_limit("accuracy<-1%")
        >>> limit.figure, limit.bound, limit.relative
        ('accuracy', -0.01, True)
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"--fail-if {text!r} is no limit", hint=_HINT)
    name, sign, signed, digits, unit = found.groups()
    if name not in FIGURES:
        raise UsageError(
            f"--fail-if {text!r} names {name!r}, which is no figure",
            hint=f"it is one of {', '.join(FIGURES)}",
        )
    figure, relative = cast(Figure, name), bool(signed)
    allowed = _units(figure, relative=relative)
    if (unit or "") not in allowed:
        given = f"the unit {unit!r}" if unit else "no unit"
        raise UsageError(
            f"--fail-if {text!r} has {given}",
            hint=f"{'a change of ' if relative else ''}{name} is given in "
            f"{' or '.join(one or 'units of the currency' for one in allowed)}",
        )
    value = float(signed + digits) * {"%": 0.01, "ms": 0.001}.get(unit or "", 1.0)
    return Limit(figure, sign == ">", value, relative, text.strip())


def _units(figure: Figure, *, relative: bool) -> tuple[str, ...]:
    if relative or figure in SHARES:
        return ("%",)
    return ("",) if figure == "cost" else ("s", "ms")
