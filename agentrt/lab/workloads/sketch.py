"""A program while it is being drawn."""

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
    TraceThink,
)


class Sketch:
    """Nodes that are added one after the other, with lengths drawn and scaled.

    Args:
        shape: Name of the kind, which begins the names of its sizes.
        random: All draws are from it, the program's serial first.
        scale: Of what is drawn.
        sizes: To draw from.
    """

    def __init__(self, shape: str, random: Random, scale: Scale, sizes: Sizes) -> None:
        self.shape = shape
        self.serial = random.randrange(1 << 31)
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
        """A generation; gives what quotes its output.

        Args:
            name: Of the node.
            prompt: Its messages.
            output: Size to draw its length from, or the length at life size.
            site: Where in the program; "" takes the name.
            after: What it waits for beside what it quotes.
            forced_share: Of the output, what a grammar leaves no choice about.
        """
        length = self.draw(output) if isinstance(output, str) else output
        tokens = self.scale.output_tokens(length)
        forced = int(tokens * forced_share)
        site = site or name
        self._nodes.append(
            TraceCall(name, tuple(prompt), tokens, after, site=site, forced_tokens=forced)
        )
        return OutputOf(name)

    def tool(
        self, name: str, *, plan: str, at_share: float = 0.0, site: str, size: str = "tool_s"
    ) -> str:
        """A tool that a generation asked for; gives its name.

        Args:
            name: Of the node.
            plan: The generation.
            at_share: Of the plan's output, after which the arguments are complete; 0 at its end.
            site: Where in the program.
            size: To draw its duration from.
        """
        written = next(n for n in self._nodes if n.name == plan)
        assert isinstance(written, TraceCall)
        at_token = max(1, round(at_share * written.output_tokens)) if at_share else 0
        seconds = self.draw(size) * self.scale.time
        tokens = self.scale.prompt_tokens(self.draw("result"))
        self._nodes.append(
            ToolUse(name, seconds, plan=plan, at_token=at_token, result_tokens=tokens, site=site)
        )
        return name

    def think(self, name: str, after: str) -> str:
        """A pause after a call; gives its name."""
        seconds = self.draw("think_s") * self.scale.think
        self._nodes.append(TraceThink(name, seconds, after=(after,)))
        return name

    def result_tokens(self, tool: str) -> int:
        """Of a tool that was added."""
        return next(
            node.result_tokens
            for node in self._nodes
            if isinstance(node, ToolUse) and node.name == tool
        )

    def trace(
        self, result: Sequence[str], quorum: tuple[tuple[str, ...], int] | None = None
    ) -> ProgramTrace:
        """The program as it is now."""
        return ProgramTrace(self.shape, self.serial, tuple(self._nodes), tuple(result), quorum)


def user(*parts: Part) -> Message:
    """A message of the user."""
    return ("user", parts)


def system(*parts: Part) -> Message:
    """A system message."""
    return ("system", parts)


def assistant(*parts: Part) -> Message:
    """What was generated before."""
    return ("assistant", parts)
