"""Prompt model: which generation comes next at one point, and how its prompt begins.

A part of the prompt gains weight whenever a prompt has it at its place, and all weights decay; the
next prompt is expected to have the parts with the most weight, up to the first that is not known.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from agentrt.base.record import record
from agentrt.base.segments import History, Segment
from agentrt.scheduler.estimates.call_model import MIN_WEIGHT
from agentrt.scheduler.estimates.prompt_parts import (
    KnownParts,
    base_of,
    begins_with,
    is_part_name,
    parts_of,
    segment_of,
)
from agentrt.scheduler.estimates.row import CALLS_DECAY, NEGLIGIBLE
from agentrt.scheduler.estimates.trail import Trail, trail_in, trail_name

MAX_TRAILS = 512

PlainForm = tuple[str, History]
"""Role of the engine, and form of earlier answers."""


@record
class PromptGuess:
    """The beginning of a prompt that is likely next.

    Attributes:
        site: Call site of its generation.
        base_site: Call site of the earlier prompt that it continues, or "".
        base_segments: Number of segments that it has in common with that.
        segments: Segments up to the first that is not known.
        complete: Whether that is the whole prompt.
        probability: Recent share of correct guesses.
        trials: Number of guesses ever.
        form: Form of a prompt without tools; None if it has tools, or is not known.
    """

    site: str
    base_site: str
    base_segments: int
    segments: tuple[Segment, ...]
    complete: bool
    probability: float
    trials: int
    form: PlainForm | None = None


class PromptModel:
    """Model of the prompt that comes next at one point.

    A trail is `(site,)`, `(site, "base", site of an earlier prompt, segments that it has beyond)`,
    `(site, "form", *form)`, or `(site, place, *part)`.

    Attributes:
        count: Prompts ever, and ends without one.
        tried: Decayed weight of the guesses.
        hits: Decayed weight of those that came true.
        trails: Decayed weight of each call site, base and part.
        public: Hashes of texts in the source of the program, which may be stored.
    """

    __slots__ = ("count", "hits", "public", "trails", "tried")

    def __init__(self) -> None:
        self.count = 0
        self.tried = 0.0
        self.hits = 0.0
        self.trails: dict[Trail, float] = {}
        self.public: set[str] = set()

    @property
    def probability(self) -> float:
        """Recent share of correct guesses."""
        return self.hits / self.tried if self.tried else 0.0

    def guess(self, known: KnownParts) -> PromptGuess | None:
        """The likeliest next prompt, as far as it is known; None if nothing of it is."""
        sites = [(trail, weight) for trail, weight in self.trails.items() if len(trail) == 1]
        if not sites:
            return None
        (site,), weight = max(sites, key=lambda found: found[1])
        if not site:
            return None
        base_site, segments = "", list[Segment]()
        base = self._heaviest((site, "base"), weight)
        if base is None:
            return None
        if base[0]:
            base_site = str(base[0])
            earlier = next((one for one in known.prompts if one.site == base_site), None)
            if earlier is None or base[1] > len(earlier.segments):
                return None
            segments = list(earlier.segments[: len(earlier.segments) - base[1]])
        complete, base_segments = False, len(segments)
        place = 0
        while (part := self._heaviest((site, place), weight)) is not None:
            complete = part[0] == "end"
            segment = None if complete else segment_of(part, known)
            if segment is None:
                break
            segments.append(segment)
            place += 1
        if not segments:
            return None
        return PromptGuess(
            site,
            base_site,
            base_segments,
            tuple(segments),
            complete,
            self.probability,
            self.count - 1,
            self._heaviest((site, "form"), weight),
        )

    def learn(
        self,
        site: str,
        segments: Sequence[Segment],
        known: KnownParts,
        guess: PromptGuess | None,
        form: PlainForm | None = None,
    ) -> bool:
        """Learn from the prompt that came.

        Args:
            site: Call site of its generation; "" if the program ended without one.
            segments: Segments of the prompt; a pending part is a hole.
            known: Parts of which it may consist.
            guess: The guess that was made before, or None.
            form: Form of the prompt, if it has no tools.

        Returns:
            Whether the guess came true.
        """
        is_hit = guess is not None and guess.site == site and begins_with(segments, guess.segments)
        if self.count:
            self.tried = self.tried * CALLS_DECAY + 1.0
            self.hits = self.hits * CALLS_DECAY + is_hit
        self.count += 1
        faded = ((trail, weight * CALLS_DECAY) for trail, weight in self.trails.items())
        trails = {trail: weight for trail, weight in faded if weight > MIN_WEIGHT}
        for trail in self._explaining(site, segments, known):
            trails[trail] = trails.get(trail, 0.0) + 1.0
        if form is not None:
            trail = (site, "form", *form)
            trails[trail] = trails.get(trail, 0.0) + 1.0
        if len(trails) > MAX_TRAILS:  # a call site weighs at least what its parts do
            heaviest = sorted(trails.items(), key=lambda one: (-one[1], len(one[0])))
            trails = dict(heaviest[:MAX_TRAILS])
        self.trails = trails
        return is_hit

    def to_sums(self) -> dict[str, float]:
        """The model as plain data, without hashes of texts that are not in the program's source."""
        sums = {"tried": self.tried, "hits": self.hits}
        for trail, weight in self.trails.items():
            part = trail[2:]
            if part[:1] != ("text",) or part[1] in self.public:
                sums[trail_name(trail)] = weight
        return sums

    @classmethod
    def of_sums(cls, count: int, sums: Mapping[str, float]) -> PromptModel:
        """The model of stored sums.

        Raises:
            ValueError: They are not those of a model.
        """
        model = cls()
        model.count = count
        model.tried, model.hits = (max(0.0, sums.get(name, 0.0)) for name in ("tried", "hits"))
        for name, weight in sums.items():
            if name in ("tried", "hits") or weight <= NEGLIGIBLE:
                continue
            trail = _trail_of(name)
            model.trails[trail] = weight
            if trail[2:3] == ("text",):
                model.public.add(trail[3])
        return model

    def _heaviest(self, above: Trail, weight: float) -> Trail | None:
        """The likeliest rest of the trails that begin with `above`; None without a likely one.

        Of a text and a value that have been the same so far, it is the value.
        """
        size = len(above)
        found = [
            (trail, own) for trail, own in self.trails.items() if trail[:size] == above != trail
        ]
        if not found:
            return None
        trail, own = max(found, key=lambda one: (one[1], "value" in one[0][size : size + 1]))
        return trail[size:] if 2.0 * own > weight else None

    def _explaining(
        self, site: str, segments: Sequence[Segment], known: KnownParts
    ) -> Iterator[Trail]:
        yield (site,)
        if not site:
            return
        base_site, beyond, same = base_of(segments, known)
        yield (site, "base", base_site, beyond)
        for place, alternatives in enumerate(parts_of(segments[same:], known)):
            for part in alternatives:
                yield (site, place, *part)
                if part[0] == "text" and part[1] in known.public:
                    self.public.add(part[1])


def _trail_of(name: str) -> Trail:
    """Raises `ValueError` if it is none."""
    trail = trail_in(name)
    is_site = len(trail) >= 1 and isinstance(trail[0], str)
    is_base = len(trail) == 4 and trail[1] == "base" and isinstance(trail[2], str)
    is_base = is_base and type(trail[3]) is int and trail[3] >= 0
    is_form = len(trail) == 4 and trail[1] == "form" and isinstance(trail[2], str)
    is_form = is_form and trail[3] in get_args(History)
    is_part = len(trail) >= 3 and type(trail[1]) is int and is_part_name(trail[2:])
    if not is_site or not (len(trail) == 1 or is_base or is_form or is_part):
        raise ValueError(f"{name!r} is no part of a prompt")
    return trail
