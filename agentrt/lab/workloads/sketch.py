"""A program while it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import Sizes
from agentrt.lab.workloads.trace import (
    Message,
    OutputOf,
    Part,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceNode,
    TraceResult,
    TraceThink,
)

_SERIALS = 1 << 31
"""Serial numbers of programs; those of another play lie above them."""


class Sketch:
    """Adds nodes one after the other, with lengths drawn and scaled.

    Args:
        shape: Name of the shape, which begins the names of its sizes.
        random: Source of all draws, the program's serial first.
        scale: Scale of the draws.
        sizes: Distributions to draw from.
        play: Number of the play; another play has the same lengths and other text of its own.
    """

    def __init__(
        self, shape: str, random: Random, scale: Scale, sizes: Sizes, *, play: int = 0
    ) -> None:
        self.shape = shape
        self.serial = random.randrange(_SERIALS) + play * _SERIALS
        self.random = random
        self.scale = scale
        self._sizes = sizes
        self._nodes: list[TraceNode] = []

    def draw(self, size: str) -> float:
        """A quantity of this shape at life size."""
        return self._sizes[f"{self.shape}.{size}"](self.random)

    def many(self, size: str, least: int = 2) -> int:
        """A fan-out or a number of turns, scaled."""
        return self.scale.many(self.draw(size), least)

    def shared(self, size: str, which: str = "") -> Piece:
        """Text that all programs of the shape begin with."""
        key = f"{self.shape}/{size}{which}"
        length = self._sizes[f"{self.shape}.{size}"](Random(key))  # the same for all
        return Piece(key, self.scale.prompt_tokens(length))

    def own(self, size: str, which: object = "") -> Piece:
        """Text of this program alone."""
        key = f"{self.shape}/{self.serial}/{size}{which}"
        return Piece(key, self.scale.prompt_tokens(self.draw(size)))

    def call(
        self,
        name: str,
        prompt: Sequence[Message],
        output: str | float,
        *,
        site: str = "",
        after: tuple[str, ...] = (),
        forced_share: float = 0.0,
    ) -> OutputOf:
        """Add a generation; returns the part that quotes its output.

        Args:
            name: Name of the node.
            prompt: Messages of its prompt.
            output: Size to draw the output's length from, or the length at life size.
            site: Call site in the program; "" takes the name.
            after: Nodes that it waits for, beside those that it quotes.
            forced_share: Share of the output that a grammar forces.
        """
        length = self.draw(output) if isinstance(output, str) else output
        tokens = self.scale.output_tokens(length)
        forced = int(tokens * forced_share)
        site = site or name
        self._nodes.append(
            TraceCall(name, tuple(prompt), tokens, after, site=site, forced_tokens=forced)
        )
        return OutputOf(name)

    def tool(self, name: str, plan: str, at_share: float = 0.0) -> TraceResult:
        """Add a tool that a generation calls; returns the part that quotes its answer.

        Args:
            name: Name of the node.
            plan: The generation.
            at_share: Share of the plan's output after which the arguments are complete; 0 for the
                end.
        """
        written = next(node for node in self._nodes if node.name == plan)
        assert isinstance(written, TraceCall)
        at_token = max(1, round(at_share * written.output_tokens)) if at_share else 0
        seconds = self.draw("tool_s") * self.scale.time
        tokens = self.scale.prompt_tokens(self.draw("result"))
        self._nodes.append(
            ToolUse(name, seconds, plan=plan, at_token=at_token, result_tokens=tokens, site="tool")
        )
        return TraceResult(name, tokens)

    def think(self, name: str, after: str) -> str:
        """Add a pause after a call; returns its name."""
        seconds = self.draw("think_s") * self.scale.think
        self._nodes.append(TraceThink(name, seconds, after=(after,)))
        return name

    def trace(
        self, result: Sequence[str], quorum: tuple[tuple[str, ...], int] | None = None
    ) -> ProgramTrace:
        """The program."""
        return ProgramTrace(self.shape, self.serial, tuple(self._nodes), tuple(result), quorum)


def user(*parts: Part) -> Message:
    """A message of the user."""
    return ("user", parts)


def system(*parts: Part) -> Message:
    """A system message."""
    return ("system", parts)


def assistant(*parts: Part) -> Message:
    """A message of the assistant."""
    return ("assistant", parts)
