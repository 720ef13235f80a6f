"""Streamed fills: prompts take the text of a generation that they wait for while it is written.

So a prompt that joins long texts is computed when the last of them ends, but for a few tokens. What
was taken may turn out otherwise, since an answer may be refused and given again: then the request
is taken back, and the next one finds in the KV cache what has stayed the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.base.segments import Hole, Segment
from agentrt.program import Gen, Node
from agentrt.runtime.run import Run


@dataclass(slots=True)
class Readers:
    """The generations that take the text of one.

    Attributes:
        gens: The generations.
        taken_chunks: Number of chunks of the text that were handed on.
    """

    gens: dict[Gen[Any], None] = field(default_factory=dict)
    taken_chunks: int = 0


class StreamedFills:
    """Knows which prompts grow with the text of which generation.

    Attributes:
        is_on: Whether prompts take unfinished text at all.
        readers: By generation, those that take its text.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.readers: dict[Node[Any], Readers] = {}

    def begin_hole(self, run: Run, segments: list[Segment]) -> Gen[Any] | None:
        """Put the text so far into the first hole of a prompt; gives its generation, if any."""
        at = next((at for at, one in enumerate(segments) if isinstance(one, Hole)), None)
        if at is None or not self.is_on:
            return None
        hole = segments[at]
        assert isinstance(hole, Hole)
        source = None if hole.generated else run.nodes.get(hole.node)
        if not isinstance(source, Gen) or not source.work.output.is_text:
            return None
        segments[at] = replace(hole, begun=source.begun_text())
        return source

    def add_reader(self, source: Gen[Any], gen: Gen[Any]) -> None:
        """Let a generation take the text of another one until that ends, sent or not."""
        readers = self.readers.get(source)
        if readers is None:
            readers = self.readers[source] = Readers()
            source.when_done(self._forget)
        readers.gens[gen] = None

    def grown(self, source: Gen[Any]) -> tuple[Gen[Any], ...]:
        """The generations whose prompts can be filled with more of the text of `source`."""
        readers = self.readers.get(source)
        begun_chunks = source.begun_chunks
        if readers is None or begun_chunks <= readers.taken_chunks:
            return ()
        readers.taken_chunks = begun_chunks
        return tuple(readers.gens)

    def _forget(self, source: Node[Any]) -> None:
        self.readers.pop(source, None)
