"""Tree of thought: levels of candidates, each valued several times, of which a beam goes on."""

from __future__ import annotations

from agentrt.lab.workloads.sketch import Sketch, system, user
from agentrt.lab.workloads.trace import OutputOf, ProgramTrace

_BEAM = 5
_VALUES = 3


def tree_of_thought(sketch: Sketch) -> ProgramTrace:
    """Three levels: proposals from each kept state, then values of every candidate."""
    propose = system(sketch.shared("propose"))
    puzzle = sketch.own("state", "/root")
    valued: list[str] = []
    kept = 1
    for level, size in enumerate(("first", "second", "third")):
        candidates = sketch.many(size)
        shares = _shares(candidates, kept)
        proposed = [
            sketch.call(
                f"propose{level}_{at}",
                [
                    propose,
                    user(puzzle, *([sketch.own("state", f"/{level}_{at}")] if level else [])),
                ],
                share * sketch.draw("candidate"),
                site=f"propose{level}",
                after=tuple(valued),  # which states are kept is known when all are valued
            )
            for at, share in enumerate(shares)
        ]
        valued = _value(sketch, level, proposed, shares)
        kept = min(_BEAM, candidates)
    return sketch.trace(valued)


def _value(sketch: Sketch, level: int, proposed: list[OutputOf], shares: list[int]) -> list[str]:
    """Values of every candidate, which stands in the prompt by itself."""
    ask = system(sketch.shared("value"))
    names: list[str] = []
    for at, (source, share) in enumerate(zip(proposed, shares, strict=True)):
        for candidate in range(share):
            prompt = [ask, user(sketch.own("state", f"/{level}_{at}/{candidate}"))]
            for sample in range(_VALUES):
                name = f"value{level}_{at}_{candidate}_{sample}"
                sketch.call(name, prompt, "judgement", site=f"value{level}", after=(source.call,))
                names.append(name)
    return names


def _shares(total: int, among: int) -> list[int]:
    """`total` candidates over `among` proposals, at least one each."""
    return [max(1, total // among + (at < total % among)) for at in range(among)]
