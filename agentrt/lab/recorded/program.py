"""A recorded program: its graph, and its text in units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from random import Random
from typing import NamedTuple

from agentrt.base.record import record
from agentrt.lab.recorded.codebook import Codebook
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import Sizes
from agentrt.lab.workloads.trace import (
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceNode,
    TraceResult,
)


class OutputPart(NamedTuple):
    """A part of an output.

    Attributes:
        text: The text.
        given: True if the form of the output leaves nothing else to be written there.
    """

    text: str
    given: bool = False


@record
class RecordedText:
    """A text in units.

    Attributes:
        units: Numbers of its units.
        given: For each unit of an output, whether its form determines it; () for other texts.
    """

    units: tuple[int, ...]
    given: tuple[bool, ...] = ()


@record
class RecordedProgram:
    """A program and its texts.

    Attributes:
        trace: The program.
        texts: Text of each piece and result by its key.
        outputs: Output of each call by its name.
    """

    trace: ProgramTrace
    texts: Mapping[str, RecordedText]
    outputs: Mapping[str, RecordedText]


class RecordedSketch:
    """Adds nodes with recorded text one after the other.

    Args:
        shape: Name of the shape.
        number: Number of the record among those of the shape.
        codebook: Numbers of units.
        scale: Scale of the times of tools; lengths are those of the record.
        sizes: Distributions of the times of tools, and of fan-outs that no record has.
        seed: Seed of all draws.
    """

    def __init__(
        self, shape: str, number: int, codebook: Codebook, scale: Scale, sizes: Sizes, seed: int
    ) -> None:
        self.number = number
        self.random = Random(f"{shape}/{seed}/{number}")
        self._shape, self._codebook = shape, codebook
        self._scale, self._sizes = scale, sizes
        self._nodes: list[TraceNode] = []
        self._texts: dict[str, RecordedText] = {}
        self._outputs: dict[str, RecordedText] = {}

    def draw(self, size: str) -> float:
        """A quantity that no record has."""
        return self._sizes[f"{self._shape}.{size}"](self.random)

    def text(self, text: str) -> Piece:
        """Part of a prompt; equal texts are one piece, which caches share."""
        key = f"{self._shape}/{sha256(text.encode()).hexdigest()[:16]}"
        found = self._texts[key] = RecordedText(self._codebook.encode(text))
        return Piece(key, len(found.units))

    def call(
        self,
        name: str,
        prompt: Sequence[Message],
        output: Sequence[OutputPart],
        *,
        site: str = "",
        after: tuple[str, ...] = (),
    ) -> OutputOf:
        """Add a generation; returns the part that quotes its output.

        Args:
            name: Name of the node.
            prompt: Messages of its prompt.
            output: The recorded output in parts.
            site: Call site in the program; "" takes the name.
            after: Nodes that it waits for, beside those that it quotes.
        """
        units: list[int] = []
        given: list[bool] = []
        for span in output:
            numbers = self._codebook.encode(span.text)
            units += numbers
            given += [span.given] * len(numbers)
        self._outputs[name] = RecordedText(tuple(units), tuple(given))
        self._nodes.append(
            TraceCall(
                name,
                tuple(prompt),
                len(units),
                after,
                site=site or name,
                forced_tokens=sum(given),
            )
        )
        return OutputOf(name)

    def tool(self, name: str, plan: str, result: str, at_token: int = 0) -> TraceResult:
        """Add a tool that a generation calls; returns the part that quotes its answer.

        Args:
            name: Name of the node.
            plan: The generation.
            result: The recorded answer.
            at_token: Tokens of the plan after which its arguments are complete; 0 for the end.
        """
        text = RecordedText(self._codebook.encode(result))
        self._texts[f"{self._shape}/{self.number}/{name}"] = text
        seconds = self.draw("tool_s") * self._scale.time
        tokens = len(text.units)
        self._nodes.append(
            ToolUse(name, seconds, plan=plan, at_token=at_token, result_tokens=tokens, site="tool")
        )
        return TraceResult(name, tokens)

    def count_units(self, text: str) -> int:
        """Length of a text in units."""
        return len(self._codebook.encode(text))

    def program(self, result: Sequence[str]) -> RecordedProgram:
        """The program."""
        trace = ProgramTrace(self._shape, self.number, tuple(self._nodes), tuple(result))
        return RecordedProgram(trace, self._texts, self._outputs)
