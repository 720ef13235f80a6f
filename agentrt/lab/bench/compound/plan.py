"""The rounds of the compound bench: programs, one at a time or as they arrive, and their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.arms.wire import ProgramLine, program_line
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.workloads.arrivals import one_by_one
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import drawn
from agentrt.lab.workloads.sizes import Sizes
from agentrt.lab.workloads.text import KeySpeller
from agentrt.lab.workloads.trace import ProgramTrace, Workload, needs, prompt_tokens

TEMPLATE_TOKENS = 8
"""Tokens that a template adds to a message, at most and roughly."""


@record
class Round:
    """The programs that every arm plays before the next round begins.

    Attributes:
        label: Shape of the programs, or name of the load.
        workload: Programs and their arrivals.
        spell: Spells the keys of their pieces.
        counts: False for a round that warms up.
        service_s: By program, seconds that it takes of an engine, if it was played before.
        text: Rounds of another one have other text of the same lengths, so that a program that is
            played again is found in no cache.
    """

    label: str
    workload: Workload
    spell: KeySpeller
    counts: bool = True
    service_s: Mapping[str, float] = field(default_factory=dict)
    text: str = ""

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
            if line["name"] in self.service_s:
                line["service_s"] = self.service_s[line["name"]]
        return lines


@record
class ProgramDraw:
    """How programs are drawn and spelled.

    Attributes:
        scale: Scale of lengths, times and counts.
        sizes: Distributions to draw from.
        seed: Seed of all draws.
        spell: Spells the keys of pieces.
        window_tokens: Context of the model; a longer program is drawn anew.
    """

    scale: Scale
    sizes: Sizes
    seed: int
    spell: KeySpeller
    window_tokens: int

    def one(self, shape: str, number: int) -> ProgramTrace:
        """A program of a shape that fits the model's window.

        Raises:
            UsageError: None does, at this scale.
        """
        for again in range(20):
            program = drawn(shape, f"{self.seed}/{number}/{again}", self.scale, self.sizes)
            if longest_tokens(program) <= self.window_tokens:
                return program
        raise UsageError(
            f"no program of {shape} fits {self.window_tokens} tokens",
            hint="Give a smaller --scale, or a model with a longer window",
        )


def rounds_of_one(shapes: Sequence[str], repeats: int, drawing: ProgramDraw) -> list[Round]:
    """One program at a time: each round has one of a shape, the first of each warms up.

    The text that programs of a shape share is then in the cache of every arm that keeps it; their
    own text is new in each round.
    """
    return [
        Round(shape, one_by_one([drawing.one(shape, number)]), drawing.spell, counts=number > 0)
        for number in range(repeats + 1)
        for shape in shapes
    ]


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
