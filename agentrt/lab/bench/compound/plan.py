"""The rounds of the compound bench: programs, one at a time or as they arrive, and their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol, TypeAlias

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.arms.wire import ProgramLine, program_line
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.load_truth import Truth, tell
from agentrt.lab.workloads.arrivals import one_by_one
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import drawn
from agentrt.lab.workloads.site_limits import SiteLimits
from agentrt.lab.workloads.sizes import Sizes
from agentrt.lab.workloads.text import KeySpeller, TextSpeller
from agentrt.lab.workloads.trace import ProgramTrace, Workload, needs, prompt_tokens

RoundKey: TypeAlias = tuple[str, int, int]
TEMPLATE_TOKENS = 8
"""Tokens that a template adds to a message, at most and roughly."""
_DRAWS = 20
_SHORTER, _LEAST_PROMPTS = 0.9, 0.04  # steps of a factor on prompts, and its end
_ROOM_TOKENS = 1024  # memory is rounded up to a multiple


@record
class Round:
    """The programs that every arm plays before the next round begins.

    Attributes:
        label: Shape of the programs, or name of the load.
        workload: Programs and their arrivals.
        spell: Spells the keys of their pieces.
        counts: False for a round that warms up.
        limits: Limits of outputs by call site; without one the limit is the length.
        truths: By program, its future if it is known, for policies that foresee.
        text: Rounds of another one have other text of the same lengths, so that a program that is
            played again is found in no cache.
        draw: Number of the draw that gave its programs.
        play: Number of the play of these programs.
        shortened: By name of a program, the factor on its prompts that lets it fit the window.
    """

    label: str
    workload: Workload
    spell: TextSpeller
    counts: bool = True
    limits: SiteLimits = field(default_factory=dict)
    truths: Mapping[str, Truth] = field(default_factory=dict)
    text: str = ""
    draw: int = 0
    play: int = 0
    shortened: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> RoundKey:
        """Label, draw and play: what makes it the same round in another part of a bench."""
        return (self.label, self.draw, self.play)

    @property
    def programs(self) -> tuple[ProgramTrace, ...]:
        """Programs in the order of their arrival."""
        return tuple(arrival.program for arrival in self.workload)

    def lines(self, salt: str = "") -> tuple[ProgramLine, ...]:
        """The programs on the wire.

        Args:
            salt: Other text of the same length for each: arms that share a server must not find
                what another arm has had computed there.
        """
        spell = self.spell.salted(f"{salt}/{self.text}" if self.text else salt)
        lines = tuple(program_line(arrival, spell) for arrival in self.workload)
        for line in lines:
            tell(line, self.limits, self.truths.get(line["name"]))
        return lines


class ProgramSource(Protocol):
    """Programs by shape and number."""

    @property
    def spell(self) -> TextSpeller:
        """Spells their texts."""
        ...

    def one(self, shape: str, number: int, play: int = 0) -> tuple[ProgramTrace, float]:
        """A program that fits the model's window, and the factor on its prompts.

        Raises:
            UsageError: There is none.
        """
        ...


@record
class ProgramDraw:
    """How programs are drawn and spelled.

    Attributes:
        scale: Scale of lengths, times and counts.
        sizes: Distributions to draw from.
        seed: Seed of all draws.
        spell: Spells the keys of pieces.
        window_tokens: Context of the model; prompts of a longer program are shortened.
    """

    scale: Scale
    sizes: Sizes
    seed: int
    spell: KeySpeller
    window_tokens: int

    def one(self, shape: str, number: int, play: int = 0) -> tuple[ProgramTrace, float]:
        """A program of a shape that fits the model's window, and the factor on its prompts.

        A program that is too long keeps its outputs, turns and fan-outs, and gets shorter prompts.
        If its outputs alone are too long another one is drawn.

        Args:
            shape: Name of the shape.
            number: Number of the draw.
            play: Number of the play; plays differ in their text, not in their lengths.

        Raises:
            UsageError: None fits, at this scale.
        """
        for again in range(_DRAWS):
            factor = 1.0
            while factor >= _LEAST_PROMPTS:
                scale = replace(self.scale, context=self.scale.context * factor)
                seed = f"{self.seed}/{number}/{again}"
                program = drawn(shape, seed, scale, self.sizes, play=play)
                if longest_tokens(program) <= self.window_tokens:
                    return program, factor
                factor *= _SHORTER
        raise UsageError(
            f"no program of {shape} fits {self.window_tokens} tokens",
            hint="Give a smaller --scale, or a model with a longer window",
        )


def rounds_of_one(
    shapes: Sequence[str], draws: int, plays: int, drawing: ProgramSource, *, warmups: int = 1
) -> list[Round]:
    """One program at a time: each round has one of a shape, the first of each warm up.

    The text that programs of a shape share is then in the cache of every arm that keeps it, and
    call sites have written as many outputs as runs warmed up; the text of a program is new in each
    round.

    Args:
        shapes: Names of shapes.
        draws: Programs of each shape that count.
        plays: Plays of each program.
        drawing: How programs are drawn.
        warmups: Programs of each shape that warm up: draws below this number.

    Raises:
        UsageError: No program of a shape fits.
    """
    warm = [
        round_of_one((shape, draw, 0), drawing, counts=False)
        for draw in range(warmups)
        for shape in shapes
    ]
    return warm + [
        round_of_one((shape, draw, play), drawing)
        for play in range(plays)
        for draw in range(warmups, warmups + draws)
        for shape in shapes
    ]


def round_of_one(key: RoundKey, drawing: ProgramSource, *, counts: bool = True) -> Round:
    """The round of a key, with one program.

    Args:
        key: Shape, draw and play.
        drawing: How programs are drawn.
        counts: False for a round that warms up.

    Raises:
        UsageError: No program of the shape fits.
    """
    shape, draw, play = key
    program, factor = drawing.one(shape, draw, play)
    return Round(
        shape,
        one_by_one([program]),
        drawing.spell,
        counts=counts,
        draw=draw,
        play=play,
        shortened={program.name: factor} if factor < 1 else {},
    )


def room_tokens(programs: Sequence[ProgramTrace], slots: int) -> int:
    """KV memory in which no engine is short of any: the calls of a program that run at once.

    Args:
        programs: Programs, one at a time.
        slots: Calls that an engine runs at once.
    """
    most = max(longest_tokens(one) * min(slots, widest(one)) for one in programs)
    return -(-most // _ROOM_TOKENS) * _ROOM_TOKENS


def longest_tokens(program: ProgramTrace) -> int:
    """Longest prompt and output of its calls, with the most that a template adds."""
    prompts = prompt_tokens(program)
    return max(
        prompts[call.name] + call.output_tokens + TEMPLATE_TOKENS * (len(call.prompt) + 1)
        for call in program.calls()
    )


def widest(program: ProgramTrace) -> int:
    """Calls that may run at once, as those of one level do."""
    level: dict[str, int] = {}
    for node in program.nodes:
        level[node.name] = 1 + max((level[name] for name in needs(node)), default=0)
    calls = [level[call.name] for call in program.calls()]
    return max(calls.count(at) for at in set(calls))


def totals(programs: Sequence[ProgramTrace]) -> Mapping[str, float]:
    """The amount of work."""
    return {
        "programs": len(programs),
        "calls": sum(len(program.calls()) for program in programs),
        "prompt_tokens": sum(sum(prompt_tokens(program).values()) for program in programs),
        "new_tokens": PrefixTree().new_tokens(programs),
        "output_tokens": sum(call.output_tokens for one in programs for call in one.calls()),
        "tool_s": sum(tool.seconds for program in programs for tool in program.tools()),
    }


def totals_in_words(programs: Sequence[ProgramTrace]) -> str:
    """The amount of work in a line."""
    return ", ".join(f"{value:,.0f} {name}" for name, value in totals(programs).items())
