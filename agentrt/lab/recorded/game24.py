"""Tree of thought: the game of 24, with proposals and values computed in the published format.

The puzzles are those of the paper. Its outputs were not published, so they are computed: a step is
written `4 + 9 = 13 (left: 10 13 13)`, a value as a few attempts and a verdict.

Source: Tree of Thoughts (Yao et al., 2023); the repository princeton-nlp/tree-of-thought-llm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from random import Random
from typing import NamedTuple, TypeAlias

from agentrt.lab.recorded.program import OutputPart, RecordedProgram, RecordedSketch
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.workloads.sketch import system, user

State: TypeAlias = tuple[Fraction, ...]
"""The numbers that are left, in ascending order."""

_BEAM, _VALUES, _PROPOSED = 5, 3, 8
_ATTEMPTS = 3
_GOAL = Fraction(24)
_EXAMPLES = ((2, 8, 8, 14), (1, 5, 6, 9))
_VALUED = ((10, 14), (11, 12), (4, 4, 10), (4, 9, 11), (5, 7, 8), (1, 3, 3))


class Move(NamedTuple):
    """A step: two numbers are replaced by one.

    Attributes:
        words: The equation.
        left: The numbers that are left.
    """

    words: str
    left: State

    @property
    def line(self) -> str:
        """The step as a line of a proposal."""
        return f"{self.words} (left: {_shown(self.left)})"


def tree_of_thought(source: RecordSource) -> Iterator[RecordedProgram]:
    """A program for each puzzle: three levels, a beam of five, three values of each candidate."""
    for number, row in enumerate(source.rows("game24.csv")):
        puzzle = tuple(sorted(Fraction(one) for one in row["Puzzles"].split()))
        yield _Search(source.sketch(number), puzzle).program()


class _Search:
    """The search for one puzzle."""

    def __init__(self, sketch: RecordedSketch, puzzle: State) -> None:
        self._sketch = sketch
        self._kept: list[State] = [puzzle]
        self._valued: list[str] = []
        self._propose = system(sketch.text(_propose_examples()))
        self._value = system(sketch.text(_value_examples()))

    def program(self) -> RecordedProgram:
        """All three levels."""
        for level in range(3):
            self._level(level)
        return self._sketch.program(self._valued)

    def _level(self, level: int) -> None:
        """Proposals from each kept state, values of every new one, and the best of these."""
        sketch, after = self._sketch, tuple(self._valued)
        self._valued = []
        found: dict[State, int] = {}
        for at, state in enumerate(self._kept):
            moves = _moves(state)
            Random(_shown(state)).shuffle(moves)  # a greedy output depends on its prompt alone
            moves = moves[:_PROPOSED]
            name = f"propose{level}_{at}"
            prompt = [self._propose, user(sketch.text(_input(state)))]
            text = OutputPart("\n".join(move.line for move in moves) + "\n")
            sketch.call(name, prompt, [text], site=f"propose{level}", after=after)
            for left in dict.fromkeys(move.left for move in moves):
                if left not in found:  # an equal state is valued once
                    self._value_of(level, at, len(found), name, left)
                    found[left] = _likelihood(left)
        self._kept = sorted(found, key=lambda left: -found[left])[:_BEAM]

    def _value_of(self, level: int, at: int, candidate: int, proposal: str, left: State) -> None:
        sketch = self._sketch
        prompt = [self._value, user(sketch.text(f"{_shown(left)}\n"))]
        for sample in range(_VALUES):
            name = f"value{level}_{at}_{candidate}_{sample}"
            output = [OutputPart(_judgement(left, sketch.random))]
            sketch.call(name, prompt, output, site=f"value{level}", after=(proposal,))
            self._valued.append(name)


def _moves(state: State) -> list[Move]:
    """All steps from a state, each once."""
    found: dict[str, Move] = {}
    for one, other in combinations(range(len(state)), 2):
        small, large = state[one], state[other]
        rest = [number for at, number in enumerate(state) if at not in (one, other)]
        equations = [
            (small + large, f"{_one(small)} + {_one(large)}"),
            (large - small, f"{_one(large)} - {_one(small)}"),
            (small * large, f"{_one(small)} * {_one(large)}"),
        ]
        if small:
            equations.append((large / small, f"{_one(large)} / {_one(small)}"))
        for result, equation in equations:
            words = f"{equation} = {_one(result)}"
            found[words] = Move(words, tuple(sorted([*rest, result])))
    return list(found.values())


@lru_cache(maxsize=65_536)
def _reaches(state: State) -> bool:
    """Whether 24 can be made of all numbers."""
    if len(state) == 1:
        return state[0] == _GOAL
    return any(_reaches(move.left) for move in _moves(state))


def _likelihood(state: State) -> int:
    """2 if 24 can be reached, 1 if the numbers are of its size, else 0."""
    if _reaches(state):
        return 2
    return int(len(state) > 2 and max(state) <= _GOAL)


def _judgement(state: State, random: Random) -> str:
    """A few attempts at a state, and the verdict; a right one is found if there is one."""
    lines: list[str] = []
    if len(state) > 1:
        many = _ATTEMPTS if len(state) > 2 else 1
        lines = [_attempt(state, random, right=False) for _ in range(many)]
        if _reaches(state):
            lines[-1] = _attempt(state, random, right=True)
    verdicts = {0: "impossible", 1: "likely", 2: "sure"}
    return "\n".join([*lines, verdicts[_likelihood(state)]]) + "\n"


def _attempt(state: State, random: Random, *, right: bool) -> str:
    words: list[str] = []
    while len(state) > 1:
        moves = _moves(state)
        move = random.choice([one for one in moves if not right or _reaches(one.left)])
        words.append(move.words)
        state = move.left
    return ", ".join(words)


def _propose_examples() -> str:
    random = Random("propose")
    blocks = []
    for numbers in _EXAMPLES:
        state = tuple(map(Fraction, numbers))
        moves = random.sample(_moves(state), _PROPOSED)
        blocks.append(_input(state) + "\n".join(move.line for move in moves) + "\n")
    return "".join(blocks)


def _value_examples() -> str:
    random = Random("value")
    asked = "Evaluate if the given numbers can reach 24 (sure, likely or impossible)\n"
    states = (tuple(map(Fraction, numbers)) for numbers in _VALUED)
    return asked + "".join(f"{_shown(state)}\n{_judgement(state, random)}" for state in states)


def _input(state: State) -> str:
    return f"Input: {_shown(state)}\nPossible next steps:\n"


def _shown(state: Sequence[Fraction]) -> str:
    return " ".join(map(_one, state))


def _one(number: Fraction) -> str:
    """A number as the paper's outputs write it: with two decimals if it is not whole."""
    return str(number) if number.denominator == 1 else f"{float(number):.2f}"
