"""Spans of the parts of a composed text.

Where a text can be read in several ways, earlier parts take as much as they can. Each leaf is
matched by the compiler that made the mask, byte by byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.structured.composition import leaf_matcher
from agentrt.structured.parts import Captured, Either, Joined, Leaf, Part, Repeated


@dataclass(frozen=True, slots=True)
class CaptureSpan:
    """The text of one capture.

    Attributes:
        capture: The capture.
        start: Index of its first byte.
        end: Index behind its last byte.
        text: The text.
    """

    capture: Captured
    start: int
    end: int
    text: str


def spans_of(part: Part, text: str) -> list[CaptureSpan]:
    """The captures in a text, in order of their beginnings, outer ones first.

    Raises:
        ValueError: The text is not of the composition.
    """
    reader = _Reader(text.encode())
    if len(reader.data) not in reader.ends(part, 0):
        raise ValueError(f"{text[:60]!r} does not fit the composition")
    reader.read(part, 0, len(reader.data))
    return reader.spans


_INSIDE = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""


@dataclass(slots=True, eq=False)
class _Reader:
    """One reading of a text.

    Attributes:
        data: The text.
        spans: Captures found.
    """

    data: bytes
    spans: list[CaptureSpan] = field(default_factory=list)
    _ends: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)

    def ends(self, part: Part, start: int) -> frozenset[int]:
        """The places where a part that begins at `start` may end."""
        key = id(part), start
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = frozenset(self._find_ends(part, start))
        return known

    def _find_ends(self, part: Part, start: int) -> set[int] | frozenset[int]:
        match part:
            case Leaf(ConstraintSpec("choice", options=options)):
                texts = [option.encode() for option in options]
                return {start + len(one) for one in texts if self.data.startswith(one, start)}
            case Leaf(None):  # free text ends behind any character
                ends = range(start, len(self.data) + 1)
                return {at for at in ends if self.data[at : at + 1] not in _INSIDE}
            case Leaf():
                return self._matched(part, start)
            case Captured(_, inner):
                return self.ends(inner, start)
            case Either(parts):
                return frozenset().union(*(self.ends(one, start) for one in parts))
            case Joined():
                return self._layers(part, start)[-1]
            case Repeated():
                return self._onward(part, self._layers(part, start)[-1])

    def _matched(self, leaf: Leaf, start: int) -> set[int]:
        matcher = leaf_matcher(leaf).deep_copy()
        found = {start} if matcher.is_accepting() else set()
        for at in range(start, len(self.data)):
            if matcher.try_consume_tokens([self.data[at]]) != 1:
                break
            if matcher.is_accepting():
                found.add(at + 1)
        return found

    def _layers(self, part: Joined | Repeated, start: int) -> list[frozenset[int]]:
        """The places reached after none of the parts that must be there, after one, and so on."""
        layers = [frozenset({start})]
        for index in range(_count(part)):
            one = _part_at(part, index)
            layers.append(frozenset().union(*(self.ends(one, at) for at in layers[-1])))
        return layers

    def _onward(self, part: Repeated, starts: frozenset[int]) -> frozenset[int]:
        """The places reached from others by as many repetitions as may be there beyond them.

        Each place is left once, at the first repetition that reaches it.
        """
        reached, latest, left = set(starts), set(starts), _optional(part)
        while latest and left > 0:
            latest = set().union(*(self.ends(part.part, at) for at in latest)) - reached
            reached |= latest
            left -= 1
        return frozenset(reached)

    def _distances(self, part: Repeated, starts: frozenset[int], end: int) -> dict[int, int]:
        """The fewest repetitions to an end, by place."""
        found = {end: 0}
        for at in sorted(self._onward(part, starts), reverse=True):
            if at < end:  # no repetition goes back
                ahead = self.ends(part.part, at) & found.keys()
                if ahead:
                    found[at] = 1 + min(map(found.__getitem__, ahead))
        return found

    def read(self, part: Part, start: int, end: int) -> None:
        """Find the captures of a part that has this span."""
        match part:
            case Leaf():
                return
            case Captured(_, inner):
                text = self.data[start:end].decode()
                self.spans.append(CaptureSpan(part, start, end, text))
                self.read(inner, start, end)
            case Either(parts):
                self.read(next(one for one in parts if end in self.ends(one, start)), start, end)
            case Joined() | Repeated():
                self._read_row(part, start, end)

    def _read_row(self, part: Joined | Repeated, start: int, end: int) -> None:
        layers = self._layers(part, start)
        distances, left = {end: 0}, 0.0
        if isinstance(part, Repeated):
            distances, left = self._distances(part, layers[-1], end), _optional(part)
        leads = [{at for at in layers[-1] if at in distances and distances[at] <= left}]
        for index in reversed(range(len(layers) - 1)):
            one, onward = _part_at(part, index), leads[-1]
            leads.append({at for at in layers[index] if not onward.isdisjoint(self.ends(one, at))})
        at = start
        for index, onward in enumerate(leads[-2::-1]):
            at = self._read_on(_part_at(part, index), at, onward)
        near = set(distances)
        while at != end:
            left -= 1
            if left < math.inf:
                near = {place for place in near if distances[place] <= left}
            at = self._read_on(_part_at(part, len(layers)), at, near)

    def _read_on(self, part: Part, start: int, onward: set[int]) -> int:
        """Read a part up to the last of the places `onward` that it reaches."""
        after = max(self.ends(part, start) & onward)
        self.read(part, start, after)
        return after


def _count(part: Joined | Repeated) -> int:
    """The number of parts that must be there."""
    return len(part.parts) if isinstance(part, Joined) else part.fewest


def _part_at(part: Joined | Repeated, index: int) -> Part:
    return part.parts[index] if isinstance(part, Joined) else part.part


def _optional(part: Repeated) -> float:
    """The number of repetitions that may be there beyond those that must."""
    return math.inf if part.most is None else part.most - part.fewest
