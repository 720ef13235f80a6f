"""Programs for a fleet: turns behind popular prefixes, tools between them, forks of siblings.

Seeded. A program is a list of stages. The requests of a stage come together, some seconds after the
end of the stage before.
"""

import random
from dataclasses import dataclass, field

from agentrt.scheduler.placement.worker_load import TokenCosts

TOKEN_BYTES = 4
BLOCK_TOKENS = 64
BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES
POPULAR_PREFIXES = 60
ZIPF = 1.1

Blocks = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Ask:
    """One request.

    Attributes:
        key: Token ids of the prompt, as bytes.
        blocks: Whole blocks of the prompt; equal numbers mean equal prompts up to there.
        parent_blocks: Whole blocks of the prompt that it continues; 0 for the first of a program.
        output: Blocks of prompt and output.
        output_key: Token ids of the output.
        learned_tokens: Expected length of the output.
    """

    run_id: str
    key: bytes
    blocks: Blocks
    parent_blocks: int
    output: Blocks
    output_key: bytes
    learned_tokens: float

    @property
    def prompt_tokens(self) -> int:
        return len(self.key) // TOKEN_BYTES

    @property
    def output_tokens(self) -> int:
        return len(self.output_key) // TOKEN_BYTES


@dataclass(slots=True, eq=False)
class FleetProgram:
    """A program that comes at an instant.

    Attributes:
        gaps_s: Seconds before each stage.
        least_s: Work of all of it if every prefix is found.
    """

    run_id: str
    at_s: float
    stages: list[list[Ask]] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    least_s: float = 0.0


class _Text:
    """A prompt under construction, with its blocks."""

    def __init__(self, key: bytes = b"", blocks: Blocks = ()) -> None:
        self.key, self.blocks = key, blocks

    def plus(self, more: bytes) -> "_Text":
        key, chain = self.key + more, list(self.blocks)
        last = chain[-1] if chain else 0
        for at in range(len(chain) * BLOCK_BYTES, len(key) - BLOCK_BYTES + 1, BLOCK_BYTES):
            last = hash((last, key[at : at + BLOCK_BYTES]))
            chain.append(last)
        return _Text(key, tuple(chain))


def fleet_programs(count: int, load: float, workers: int, seed: int = 0) -> list[FleetProgram]:
    """Programs, by arrival.

    Args:
        count: Number of programs.
        load: Share of the time of all workers that their least work takes.
        workers: Number of workers.
        seed: Seed of all draws.
    """
    draw = random.Random(seed)
    popular = [
        _Text().plus(draw.randbytes(draw.randrange(800, 4000) * TOKEN_BYTES))
        for _ in range(POPULAR_PREFIXES)
    ]
    weights = [1 / (rank + 1) ** ZIPF for rank in range(POPULAR_PREFIXES)]
    programs = [
        _program(f"r{number}", draw.choices(popular, weights)[0], draw) for number in range(count)
    ]
    every_s = sum(program.least_s for program in programs) / count / workers / load
    at_s = 0.0
    for program in programs:
        at_s += draw.expovariate(1 / every_s)
        program.at_s = at_s
    return programs


def _program(run_id: str, trunk: _Text, draw: random.Random) -> FleetProgram:
    program, costs = FleetProgram(run_id, 0.0), TokenCosts()
    parent, trunk = 0, trunk.plus(draw.randbytes(draw.randrange(100, 600) * TOKEN_BYTES))
    turns = min(16, 2 + int(draw.expovariate(1 / 3)))
    fork_at = draw.randrange(1, turns) if draw.random() < 0.3 else 0
    work_s: list[float] = []
    for turn in range(turns):
        siblings = draw.randrange(2, 7) if turn and turn == fork_at else 1
        stage: list[Ask] = []
        learned = draw.choice([80.0, 150.0, 300.0])
        for number in range(siblings):
            text = trunk if siblings == 1 else trunk.plus(_tokens(draw, 20, 200))
            out = _tokens(draw, 1, 2, draw.lognormvariate(0.0, 0.5) * learned)
            done = text.plus(out)
            ask = Ask(run_id, text.key, text.blocks, parent, done.blocks, out, learned)
            stage.append(ask)
            new = 0 if number and siblings == 1 else ask.prompt_tokens - parent * BLOCK_TOKENS
            new = new if turn else 300
            work_s.append(costs.work_s(new, ask.output_tokens))
        program.stages.append(stage)
        program.gaps_s.append(draw.expovariate(1 / 2.0) if turn else 0.0)
        parent = len(trunk.blocks)
        behind = trunk.plus(stage[0].output_key) if siblings == 1 else trunk
        trunk = behind.plus(_tokens(draw, 60, 900))
    program.least_s = sum(work_s)
    return program


def _tokens(draw: random.Random, least: int, most: int, times: float = 1.0) -> bytes:
    return draw.randbytes(max(1, int(draw.randrange(least, most) * times)) * TOKEN_BYTES)
