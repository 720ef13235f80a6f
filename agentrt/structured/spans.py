"""Spans of the parts of a composed text.

Where a text can be read in several ways, earlier parts take as much as they can. Each leaf is
matched by the compiler that made the mask, byte by byte.
"""

from __future__ import annotations

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
            case Joined() | Repeated():
                layers = self._layers(part, start)
                fewest = len(part.parts) if isinstance(part, Joined) else part.fewest
                return frozenset().union(*layers[fewest:])

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
        """The places reached after no part, one part, two parts, and so on."""
        layers = [frozenset({start})]
        for index in range(_most(part, len(self.data))):
            one = part.parts[index] if isinstance(part, Joined) else part.part
            reached = frozenset().union(*(self.ends(one, at) for at in layers[-1]))
            if not reached and isinstance(part, Repeated):
                break
            layers.append(reached)
        return layers

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
        fewest = len(part.parts) if isinstance(part, Joined) else part.fewest
        leads: list[set[int]] = [set() for _ in layers]
        for index in range(len(layers) - 1, -1, -1):
            for at in layers[index]:
                is_end = at == end and index >= fewest
                onward = leads[index + 1] if index + 1 < len(layers) else set()
                if is_end or (onward and self._step(part, index, at) & onward):
                    leads[index].add(at)
        at, index = start, 0
        while not (at == end and index >= fewest):
            one = part.parts[index] if isinstance(part, Joined) else part.part
            after = max(self._step(part, index, at) & leads[index + 1])
            self.read(one, at, after)
            at, index = after, index + 1

    def _step(self, part: Joined | Repeated, index: int, at: int) -> set[int]:
        one = part.parts[index] if isinstance(part, Joined) else part.part
        return set(self.ends(one, at))


def _most(part: Joined | Repeated, length: int) -> int:
    if isinstance(part, Joined):
        return len(part.parts)
    most = max(part.fewest, length + 1)
    return most if part.most is None else min(part.most, most)
