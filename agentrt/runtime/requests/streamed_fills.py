"""Streamed fills: prompts take the text that they wait for while it is written or yielded.

So a prompt that joins long texts is computed when the last of them ends, but for a few tokens. What
was taken may turn out otherwise, since a type may read another value than was written: then the
request is taken back, and the next one finds in the KV cache what has stayed the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.base.json_style import JsonStyle
from agentrt.base.segments import Hole, Segment
from agentrt.program import Gen, Node, YieldingNode
from agentrt.program.node import when_done
from agentrt.runtime.requests.begun_text import BegunText, Source
from agentrt.runtime.run import Run


@dataclass(slots=True)
class Readers:
    """The generations that take the text of a node.

    Attributes:
        gens: The generations.
        texts: The taken part, by the style of their prompts; None if the text comes at its end.
    """

    gens: dict[Gen[Any], None] = field(default_factory=dict)
    texts: dict[JsonStyle, BegunText | None] = field(default_factory=dict)


class StreamedFills:
    """Knows which prompts grow with the text of which generation.

    Attributes:
        is_on: Whether prompts take unfinished text at all.
        readers: By generation or tool, those that take its text.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.readers: dict[Node[Any], Readers] = {}

    def begin_hole(self, run: Run, gen: Gen[Any], segments: list[Segment]) -> Source | None:
        """Put the text so far into the first hole of a prompt; gives the node that writes it."""
        at = next((at for at, one in enumerate(segments) if isinstance(one, Hole)), None)
        if at is None or not self.is_on:
            return None
        hole = segments[at]
        assert isinstance(hole, Hole)
        source = None if hole.generated else run.nodes.get(hole.node)
        if not isinstance(source, Gen | YieldingNode):
            return None
        style, texts = gen.work.chat.json_style, self._readers_of(source).texts
        if style not in texts:
            texts[style] = BegunText.of(source, style)
        text = texts[style]
        if text is None:
            return None
        text.catch_up()
        segments[at] = replace(hole, begun=text.parts)
        return source

    def add_reader(self, source: Node[Any], gen: Gen[Any]) -> None:
        """Let a generation take the text of a node until that ends, sent or not."""
        self._readers_of(source).gens[gen] = None

    def grown(self, source: Node[Any]) -> tuple[Gen[Any], ...]:
        """The generations whose prompts can be filled with more of the text of `source`."""
        readers = self.readers.get(source)
        if readers is None:
            return ()
        grown = [text for text in readers.texts.values() if text is not None and text.catch_up()]
        return tuple(readers.gens) if grown else ()

    def begin_anew(self, source: Node[Any]) -> None:
        """Read a text from its beginning again, which is written anew."""
        if source in self.readers:
            self.readers[source].texts.clear()

    def _readers_of(self, source: Node[Any]) -> Readers:
        readers = self.readers.get(source)
        if readers is None:
            readers = self.readers[source] = Readers()
            when_done(source, self._forget)
        return readers

    def _forget(self, source: Node[Any]) -> None:
        self.readers.pop(source, None)
