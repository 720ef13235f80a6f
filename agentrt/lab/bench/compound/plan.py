"""What the compound bench plays: programs, one at a time or as they arrive, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.errors import UsageError
from agentrt.lab.arms.wire import ProgramLine, Salted, Spell, program_line
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.checkpoints.shapes import is_large
from agentrt.lab.workloads.arrivals import one_by_one
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import drawn
from agentrt.lab.workloads.sizes import Sizes
from agentrt.lab.workloads.trace import ProgramTrace, Workload, needs, prompt_tokens

TEMPLATE_TOKENS = 8
"""At most, that a template adds to a message, roughly."""


@dataclass(frozen=True, slots=True)
class Round:
    """What every arm plays before the next round begins.

    Attributes:
        label: Of its shape, or of the load.
        workload: Programs and when they arrive.
        spell: Makes text of keys.
        counts: Whether its samples do; the first round warms up.
        service_s: By program, what it takes of an engine, where it was played before.
        text: Rounds of another one have other text of the same lengths, so that programs that are
            played again are found in no cache.
    """

    label: str
    workload: Workload
    spell: Spell
    counts: bool
    service_s: Mapping[str, float] = field(default_factory=dict)
    text: str = ""

    @property
    def programs(self) -> tuple[ProgramTrace, ...]:
        """In the order of their arrival."""
        return tuple(arrival.program for arrival in self.workload)

    def lines(self, salt: str = "") -> tuple[ProgramLine, ...]:
        """The same as an arm is asked to play it.

        Args:
            salt: Other text of the same length for each: arms that share a server must not find
                what another has had computed there.
        """
        spell = Salted(self.spell, f"{salt}/{self.text}" if self.text else salt)
        lines = [program_line(arrival, spell) for arrival in self.workload]
        for line in lines:
            if line["name"] in self.service_s:
                line["service_s"] = self.service_s[line["name"]]
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class ProgramDraw:
    """How programs are drawn and spelt.

    Attributes:
        scale: Of lengths, times and counts.
        sizes: To draw from.
        seed: Of all draws.
        spell: Makes text of keys.
        window_tokens: Of the model; a longer program is drawn anew.
    """

    scale: Scale
    sizes: Sizes
    seed: int
    spell: Spell
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

    def round(self, label: str, workload: Workload, *, counts: bool = True) -> Round:
        """A round of given programs."""
        return Round(label, workload, self.spell, counts)


def rounds_of_one(shapes: Sequence[str], repeats: int, drawing: ProgramDraw) -> list[Round]:
    """One program at a time: each round has one of a shape, the first of each warms up.

    What programs of a shape share is then in the cache of every arm that keeps it; what is their
    own is new in each round.
    """
    found = []
    for number in range(repeats + 1):
        for shape in shapes:
            workload = one_by_one([drawing.one(shape, number)])
            found.append(drawing.round(shape, workload, counts=number > 0))
    return found


def longest_tokens(program: ProgramTrace) -> int:
    """Of its calls, the longest prompt and output, with what a template adds at most."""
    prompts = prompt_tokens(program)
    return max(
        prompts[call.name] + call.output_tokens + TEMPLATE_TOKENS * (len(call.prompt) + 1)
        for call in program.calls()
    )


def working_set_tokens(programs: Iterable[ProgramTrace]) -> int:
    """What a cache holds that never forgets: every distinct prefix, and every output."""
    tree, total = PrefixTree(), 0
    for program in programs:
        shares = tree.add(program)
        total += sum(share.new_tokens for share in shares.values())
        total += sum(call.output_tokens for call in program.calls())
    return total


def widest(program: ProgramTrace) -> int:
    """Calls that may run at once, as those of one level do."""
    level: dict[str, int] = {}
    for node in program.nodes:
        level[node.name] = 1 + max((level[name] for name in needs(node)), default=0)
    calls = [level[call.name] for call in program.calls()]
    return max(calls.count(at) for at in set(calls))


def totals(programs: Sequence[ProgramTrace]) -> Mapping[str, float]:
    """How much there is to do, for people."""
    return {
        "programs": len(programs),
        "calls": sum(len(program.calls()) for program in programs),
        "prompt_tokens": sum(sum(prompt_tokens(program).values()) for program in programs),
        "new_tokens": working_set_tokens(programs)
        - sum(call.output_tokens for p in programs for call in p.calls()),
        "output_tokens": sum(call.output_tokens for p in programs for call in p.calls()),
        "tool_s": sum(tool.seconds for program in programs for tool in program.tools()),
    }


def default_scale(shape: ModelShape) -> Scale:
    """Small enough that all twelve shapes take minutes on two cores.

    Times are scaled with outputs, so that tools keep the share of a program that they have in life.
    """
    if is_large(shape):
        return Scale(0.12, 0.1, 0.1, 0.3, 0.002)
    if shape.parameters > 5_000_000:
        return Scale(0.25, 0.25, 0.05, 0.5, 0.002)
    return Scale(0.125, 0.25, 0.01, 0.5, 0.0005)
