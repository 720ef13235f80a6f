"""Spells the texts of recorded programs in the words of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from agentrt.lab.recorded.codebook import word_at, word_order
from agentrt.lab.recorded.program import RecordedProgram, RecordedText
from agentrt.lab.workloads.trace import ProgramTrace, TraceCall


@dataclass(slots=True)
class RecordedTexts:
    """Texts of the programs that have been read.

    Attributes:
        parts: Pieces and results by key.
        outputs: Outputs by the names of program and call.
    """

    parts: dict[str, RecordedText] = field(default_factory=dict)
    outputs: dict[tuple[str, str], RecordedText] = field(default_factory=dict)

    def add(self, program: RecordedProgram) -> None:
        """Add the texts of a program."""
        self.parts.update(program.texts)
        name = program.trace.name
        self.outputs.update({(name, call): text for call, text in program.outputs.items()})


class RecordedSpeller:
    """Spells texts of recorded programs; equal units are equal words.

    Args:
        words: Words, each with its space and each one token.
        texts: Texts of recorded programs; they may grow.
        salt: Words depend on it, what repeats does not.
    """

    def __init__(self, words: Sequence[str], texts: RecordedTexts, salt: str = "") -> None:
        self._words, self._texts, self._salt = words, texts, salt
        lengths = {len(word) - 1 for word in words}
        self._word_letters = lengths.pop() if len(lengths) == 1 else None

    def salted(self, salt: str) -> RecordedSpeller:
        """The same text in other words."""
        return RecordedSpeller(self._words, self._texts, f"{salt}/")

    def __call__(self, key: str, tokens: int) -> str:
        """The text of a piece or a result.

        Raises:
            KeyError: No program has it.
        """
        return "".join(self._spelled(self._texts.parts[key]))

    def form(self, program: ProgramTrace, call: TraceCall) -> str:
        """A regular expression with the given words of an output and as many free ones; or ""."""
        if not call.forced_tokens or self._word_letters is None:
            return ""
        text = self._texts.outputs[program.name, call.name]
        free = f"( [a-z]{{{self._word_letters}}})"
        found = ""
        pairs = zip(self._spelled(text), text.given, strict=True)
        for given, group in groupby(pairs, key=lambda pair: pair[1]):
            words = [word for word, _ in group]
            found += "".join(words) if given else f"{free}{{{len(words)}}}"
        return found

    def output(self, program: ProgramTrace, call: TraceCall) -> str:
        """The recorded output of a call."""
        return "".join(self._spelled(self._texts.outputs[program.name, call.name]))

    def _spelled(self, text: RecordedText) -> Iterator[str]:
        count = len(self._words)
        order = word_order(count, self._salt)
        return (self._words[order[word_at(number, count)]] for number in text.units)
