"""Limits of `--fail-if`: a figure, a direction and a bound, maybe against another config."""

from __future__ import annotations

import re
from typing import Literal, cast, get_args

from agentrt.base.errors import UsageError
from agentrt.base.record import record

SuiteFigure = Literal["accuracy", "score", "fidelity", "latency_p50", "latency_p95", "cost"]
LogitFigure = Literal["perplexity", "kl_mean", "kl_p99", "top1", "layer_error"]
Figure = SuiteFigure | LogitFigure
FIGURES: tuple[Figure, ...] = get_args(SuiteFigure)
LOGIT_FIGURES: tuple[Figure, ...] = get_args(LogitFigure)
SHARES: tuple[Figure, ...] = ("accuracy", "score", "fidelity", "top1", "layer_error")
COMPARED: tuple[Figure, ...] = ("kl_mean", "kl_p99", "top1", "layer_error")
"""Figures that are differences from the first configuration by themselves."""

_FORM = re.compile(r"\s*([a-z_0-9]+)\s*([<>])\s*([+-]?)(\d+(?:\.\d+)?)(%|ms|s)?\s*")
_EXAMPLES = {
    FIGURES: "accuracy<90%, accuracy<-1%, latency_p95>+10%, cost>0.5",
    LOGIT_FIGURES: "perplexity>+1%, kl_mean>0.01, kl_p99>0.1, top1<99%, layer_error>5%",
}

_UNITLESS: dict[Figure, str] = {
    "cost": "units of the currency",
    "perplexity": "a plain number",
    "kl_mean": "nats, a plain number",
    "kl_p99": "nats, a plain number",
}


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


def parse_limit(text: str, figures: tuple[Figure, ...] = FIGURES) -> Limit:
    """The limit that a text states.

    A sign makes it relative: `accuracy<-1%` is a fall by more than one point, `latency_p95>+10%` is
    a tenth more than the first configuration takes.

    Args:
        text: `FIGURE<BOUND` or `FIGURE>BOUND`.
        figures: Figures that can be bounded: `FIGURES` of suites, or `LOGIT_FIGURES`.

    Raises:
        UsageError: The text is no limit, or its unit is not that of the figure.

    Example:
        >>> limit = parse_limit("accuracy<-1%")
        >>> limit.figure, limit.bound, limit.relative
        ('accuracy', -0.01, True)
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--fail-if {text!r} is no limit",
            hint=f"give FIGURE<BOUND or FIGURE>BOUND: {_EXAMPLES[figures]}",
        )
    name, sign, signed, digits, unit = found.groups()
    if name not in figures:
        raise UsageError(
            f"--fail-if {text!r} names {name!r}, which is no figure",
            hint=f"it is one of {', '.join(figures)}",
        )
    figure, relative = cast(Figure, name), bool(signed)
    if relative and figure in COMPARED:
        raise UsageError(
            f"--fail-if {text!r}: {name} compares with the first configuration by itself",
            hint=f"leave out the sign: {name}{sign}{digits}{unit or ''}",
        )
    allowed = _units(figure, relative=relative)
    if (unit or "") not in allowed:
        given = f"the unit {unit!r}" if unit else "no unit"
        raise UsageError(
            f"--fail-if {text!r} has {given}",
            hint=f"{'a change of ' if relative else ''}{name} is given in "
            f"{' or '.join(one or _UNITLESS[figure] for one in allowed)}",
        )
    value = float(signed + digits) * {"%": 0.01, "ms": 0.001}.get(unit or "", 1.0)
    return Limit(figure, sign == ">", value, relative, text.strip())


def _units(figure: Figure, *, relative: bool) -> tuple[str, ...]:
    if relative or figure in SHARES:
        return ("%",)
    return ("",) if figure in _UNITLESS else ("s", "ms")
