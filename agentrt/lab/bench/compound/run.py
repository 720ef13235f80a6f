"""What all arms of a run have in common: places enough, a probe, and their turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.bench.compound.measure import ArmSamples, take_turns
from agentrt.lab.bench.compound.plan import Round, widest
from agentrt.lab.bench.compound.players import Opened, Wanted, open_all
from agentrt.lab.workloads.trace import ProgramTrace

MOST_SLOTS = 32
_PROBED = 3


@dataclass(frozen=True, slots=True)
class CompoundRun:
    """What a run came to, of programs one at a time or as they arrive.

    Attributes:
        rounds: As all arms played them, warming ones first.
        opened: The arms.
        samples: Of each.
        wanted: What they serve.
        told: For the result, of a load.
    """

    rounds: Sequence[Round]
    opened: Opened
    samples: Mapping[str, ArmSamples]
    wanted: Wanted
    told: Mapping[str, Any] = field(default_factory=dict)


def with_room(
    wanted: Wanted, programs: Sequence[ProgramTrace], *, kv_tokens: int, longest_tokens: int
) -> Wanted:
    """The same arms, with memory and places for these programs.

    Args:
        wanted: Arms.
        programs: That they will play.
        kv_tokens: Of KV memory.
        longest_tokens: Of a request.
    """
    slots = min(MOST_SLOTS, max(widest(program) for program in programs))
    served = replace(wanted.served, kv_tokens=kv_tokens, slots=slots, longest_tokens=longest_tokens)
    return replace(wanted, served=served)


def run_rounds(
    rounds: Sequence[Round], wanted: Wanted, stack: ExitStack, tell: Callable[[str], None]
) -> CompoundRun:
    """Open every arm and let each play every round.

    Args:
        rounds: In their order.
        wanted: Arms, with room for the programs.
        stack: Closes what was opened.
        tell: Called with what is being done.

    Raises:
        BenchFailed: Arms cannot be compared.
    """
    opened = open_all(wanted, probe_of(rounds), stack, tell)
    return CompoundRun(rounds, opened, take_turns(opened.players, rounds, tell), wanted)


def probe_of(rounds: Sequence[Round]) -> list[ProgramLine]:
    """The first program of each shape, the small ones: what servers are chosen by."""
    seen: dict[str, ProgramLine] = {}
    for one in rounds:
        for line in one.lines("probe"):
            seen.setdefault(line["shape"], {**line, "at_s": 0.0})
    small = sorted(seen.values(), key=lambda line: len(line["nodes"]))
    return small[:_PROBED]
