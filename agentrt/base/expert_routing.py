"""The setting of expert routing, checked before an engine starts."""

from __future__ import annotations

import math
from typing import Literal

from agentrt.base.errors import UsageError
from agentrt.base.record import record

_HINT = (
    "Give trained, threshold=0.1, capacity=1.25, capacity=1.25,drop, or the name of a function as "
    "package.module:function"
)


@record
class ExpertRouting:
    """How tokens are sent to the experts of a model.

    Attributes:
        kind: "trained", "threshold", "capacity" or "function".
        value: The least part of a token's weights, or the factor of an expert's capacity; else 0.
        drops: Whether a token leaves out an expert that is full, and goes to no other.
        function: Name of a function as `package.module:function`, or "".
    """

    kind: Literal["trained", "threshold", "capacity", "function"] = "trained"
    value: float = 0.0
    drops: bool = False
    function: str = ""


def expert_routing(text: str) -> ExpertRouting:
    """Read the setting.

    Example:
        >>> expert_routing("capacity=1.25,drop")
        ExpertRouting(kind='capacity', value=1.25, drops=True, function='')

    Raises:
        UsageError: The way is unknown, or its number is out of range.
    """
    name, _, rest = text.partition("=")
    number, _, how = rest.partition(",")
    if text == "trained":
        return ExpertRouting()
    if name == "threshold" and not how:
        return ExpertRouting("threshold", _number(text, number, most=1.0))
    if name == "capacity" and how in ("", "drop") and not rest.endswith(","):
        return ExpertRouting("capacity", _number(text, number, most=math.inf), how == "drop")
    module, _, function = text.partition(":")
    if function.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return ExpertRouting("function", function=text)
    raise UsageError(f"EngineConfig(expert_routing={text!r}) is unknown", hint=_HINT)


def _number(text: str, number: str, *, most: float) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (0 < value <= most and math.isfinite(value)):
        bound = f"above 0 and at most {most:g}" if math.isfinite(most) else "above 0"
        raise UsageError(
            f"EngineConfig(expert_routing={text!r}): {number!r} is no number {bound}", hint=_HINT
        )
    return value
