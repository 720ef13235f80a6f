"""Programs of recorded text that fit a model, by shape and number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.lab.bench.compound.plan import longest_tokens
from agentrt.lab.progress import log
from agentrt.lab.recorded.codebook import Codebook
from agentrt.lab.recorded.program import RecordedProgram
from agentrt.lab.recorded.readers import RECORDS
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.recorded.speller import RecordedSpeller, RecordedTexts
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import Sizes
from agentrt.lab.workloads.trace import ProgramTrace


class RecordedDraw:
    """Recorded programs in the order of their records, without those that are too long.

    Args:
        folder: Folder of the public files.
        words: Words of the model, each with its space and each one token.
        window_tokens: Window of the model.
        scale: Scale of the times of tools.
        sizes: Distributions of what no record has.
        seed: Seed of what no record has.

    Attributes:
        spell: Spells their texts.
    """

    def __init__(
        self,
        folder: Path,
        words: Sequence[str],
        window_tokens: int,
        *,
        scale: Scale,
        sizes: Sizes,
        seed: int,
    ) -> None:
        self._folder, self._words, self._window_tokens = folder, words, window_tokens
        self._scale, self._sizes, self._seed = scale, sizes, seed
        self._texts = RecordedTexts()
        self._read: dict[str, list[ProgramTrace]] = {}
        self._codebooks: dict[str, Codebook] = {}
        self._left: dict[str, Iterator[RecordedProgram]] = {}
        self.spell = RecordedSpeller(words, self._texts)

    def one(self, shape: str, number: int, play: int = 0) -> tuple[ProgramTrace, float]:
        """The program of a record; its lengths are those of the record, so the factor is 1.

        Args:
            shape: Name of the shape.
            number: Number of the record among those that fit.
            play: 0: each program is played once.

        Raises:
            UsageError: The shape has no records, or not so many that fit the model.
        """
        if play:
            raise ValueError("each recorded program is played once")
        programs = self._read.setdefault(shape, [])
        while len(programs) <= number:
            programs.append(self._next(shape))
        return programs[number], 1.0

    def tell(self) -> None:
        """Log how many units share a word, by shape."""
        for shape, codebook in self._codebooks.items():
            shared = codebook.shared(len(self._words))
            log(
                f"{shape}: {len(codebook)} different units in {len(self._words)} words, "
                f"{shared} share one; text: {RECORDS[shape].source}"
            )

    def _next(self, shape: str) -> ProgramTrace:
        for program in self._records(shape):
            if longest_tokens(program.trace) <= self._window_tokens:
                self._texts.add(program)
                return program.trace
        raise UsageError(
            f"there are {len(self._read[shape])} recorded programs of {shape} that fit "
            f"{self._window_tokens} tokens",
            hint="Lower --draws, --plays or --warmups, or give a model with a longer window",
        )

    def _records(self, shape: str) -> Iterator[RecordedProgram]:
        if shape not in self._left:
            if shape not in RECORDS:
                raise UsageError(
                    f"{shape} has no recorded text", hint=f"Give --shapes {','.join(RECORDS)}"
                )
            codebook = self._codebooks[shape] = Codebook()
            source = RecordSource(
                shape, self._folder, codebook, self._scale, self._seed, self._sizes
            )
            self._left[shape] = RECORDS[shape].read(source)
        return self._left[shape]
