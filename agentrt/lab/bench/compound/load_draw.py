"""The programs of an open load: the open mix as it comes, none longer than memory allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.bench.compound.plan import ProgramDraw, longest_tokens
from agentrt.lab.workloads.arrivals import poisson
from agentrt.lab.workloads.mixes import OPEN_MIX, mix
from agentrt.lab.workloads.trace import ProgramTrace, Workload

_SHORTER = 0.8
_LEAST = 0.05


@record
class LoadDraw:
    """One draw of programs.

    Attributes:
        number: Number of the draw.
        programs: Programs in the order of their arrival.
        shortened: By name of a program, the factor on its lengths, turns and fan-outs, beside
            the scale of all.
        seed: Seed of the instants at which they arrive.
    """

    number: int
    programs: tuple[ProgramTrace, ...]
    shortened: dict[str, float]
    seed: str

    def arriving(self, rate: float) -> Workload:
        """The programs as they arrive by chance; another rate stretches the same gaps.

        Args:
            rate: Programs a second.
        """
        return poisson(self.programs, rate, Random(self.seed))


def load_draw(
    number: int, count: int, drawing: ProgramDraw, *, tenants: int = 1, longest: int = 0
) -> LoadDraw:
    """Draw programs of the open mix; one that is too long keeps its shape and gets shorter.

    A long chain is long by its turns as well as by their content: both are scaled down.

    Args:
        number: Number of the draw; others are other programs.
        count: Number of programs.
        drawing: How programs are drawn.
        tenants: Tenants among whom they are dealt out.
        longest: Tokens that a request may have, output included; 0 takes the model's window.

    Raises:
        UsageError: However short, a program is too long.
    """
    random = Random(f"{drawing.seed}/load/{number}")
    programs: list[ProgramTrace] = []
    shortened: dict[str, float] = {}
    for _ in range(count):
        program, factor = _fitting(random.getrandbits(64), drawing, tenants, longest)
        programs.append(program)
        if factor < 1.0:
            shortened[program.name] = factor
    return LoadDraw(number, tuple(programs), shortened, f"{drawing.seed}/arrivals/{number}")


def load_draws(
    draws: int, count: int, drawing: ProgramDraw, tenants: int, longest: int
) -> tuple[LoadDraw, ...]:
    """Several draws; for the arguments and errors see `load_draw`."""
    return tuple(
        load_draw(at, count, drawing, tenants=tenants, longest=longest) for at in range(draws)
    )


def largest_tokens(draws: Sequence[LoadDraw]) -> int:
    """Largest request of all draws, with its output."""
    return max(longest_tokens(program) for draw in draws for program in draw.programs)


def _fitting(
    seed: int, drawing: ProgramDraw, tenants: int, longest: int
) -> tuple[ProgramTrace, float]:
    most = min(longest or drawing.window_tokens, drawing.window_tokens)
    given, factor = drawing.scale, 1.0
    while True:
        scale = replace(
            given,
            context=given.context * factor,
            output=given.output * factor,
            count=given.count * factor,
        )
        (program,) = mix(1, Random(seed), scale, OPEN_MIX, sizes=drawing.sizes, tenants=tenants)
        if longest_tokens(program) <= most:
            return program, factor
        factor *= _SHORTER
        if factor < _LEAST:
            raise UsageError(
                f"no {program.shape} has requests of at most {most} tokens",
                hint="Give a larger --kv-share, or none",
            )
