"""The load of a server, as its doors show it: its metrics, and its capacity."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentrt.base.engines.engine_kind import KindLoad
from agentrt.base.record import record

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@record
class EngineLoad:
    """The load of a server at one instant.

    Attributes:
        running: Requests that it computes.
        waiting: Requests in its own queue.
        kv_share: Share of its KV cache that these hold, 0 to 1.
        kv_tokens: Size of its KV cache; 0 if it does not say.
    """

    running: float
    waiting: float
    kv_share: float = 0.0
    kv_tokens: float = 0.0


@record
class EngineCapacity:
    """The capacity of a server.

    Attributes:
        slots: Requests that it serves at once; 0 if it does not say.
        kv_tokens: Size of its KV cache; 0 if it does not say.
    """

    slots: float = 0.0
    kv_tokens: float = 0.0


def load_in(text: str, door: KindLoad) -> EngineLoad | None:
    """The load in the metrics of a server; None if they lack its requests.

    Figures of several engines behind one address are added up, shares are averaged.

    Args:
        text: Metrics in Prometheus' text format.
        door: Names of the metrics.
    """
    found: dict[str, list[float]] = {}
    kv_tokens = 0.0
    names = tuple(filter(None, (door.running, door.waiting, door.kv_used, door.kv_info)))
    for name, labels, value in _samples(text, names):
        if name == door.kv_info:
            kv_tokens += math.prod(_number(labels.get(one)) for one in door.kv_factors)
        else:
            found.setdefault(name, []).append(value)
    if door.running not in found or door.waiting not in found:
        return None
    shares = found.get(door.kv_used, [0.0])
    return EngineLoad(
        sum(found[door.running]),
        sum(found[door.waiting]),
        min(1.0, max(0.0, sum(shares) / len(shares))),
        kv_tokens,
    )


def capacity_in(value: Any, door: KindLoad) -> EngineCapacity:
    """The capacity in a server's description of itself, as far as it says so."""
    return EngineCapacity(_number(_at(value, door.slots)), _number(_at(value, door.kv_tokens)))


def _samples(text: str, names: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Metrics of these names with their labels and values; lines of other forms are left out."""
    for line in text.splitlines():
        match = _SAMPLE.match(line) if line.startswith(names) else None
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            yield match[1], dict(_LABEL.findall(match[2] or "")), value


def _at(value: Any, place: str) -> Any:
    """The member at a dotted place, `*` for the sum over a list; None if there is none."""
    name, _, rest = place.partition(".")
    if not name:
        return None
    if name == "*":
        return sum(_number(_at(one, rest)) for one in value) if isinstance(value, list) else None
    member = value.get(name) if isinstance(value, dict) else None
    return _at(member, rest) if rest else member


def _number(value: Any) -> float:
    """A positive number, or a text of one; 0.0 for anything else."""
    if isinstance(value, bool):
        return 0.0
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0
