"""The KV cache that one run needs of one engine."""

from __future__ import annotations

from agentrt.base.ids import NodeId


class Footprint:
    """The KV that a run needs of one engine.

    Attributes:
        committed_tokens: What the gate set aside for it.
        context_tokens: What it needs now: its generations under way, or the context it went on
            with last, whichever is more.
        longest_tokens: The longest context that one of its generations came to.
        peak_tokens: The most it needed at once.
        running_tokens: Made by its generations under way themselves, as expected.
        shared_tokens: The most that one of those has from others.
        trunk_tokens: Context of its generation that ended last: between two turns of a tool loop
            that is what it comes back to.
        forked: Its generation that ended last was not the only one under way.
        awaited_tokens: Of generations under way that go on from the one before: the context that
            they should find in the cache.
    """

    __slots__ = (
        "awaited_tokens",
        "committed_tokens",
        "context_tokens",
        "forked",
        "longest_tokens",
        "peak_tokens",
        "running_tokens",
        "shared_tokens",
        "trunk_tokens",
    )

    def __init__(self, committed_tokens: float) -> None:
        self.committed_tokens = committed_tokens
        self.context_tokens = 0.0
        self.longest_tokens = 0.0
        self.peak_tokens = 0.0
        self.running_tokens = 0.0
        self.shared_tokens = 0.0
        self.trunk_tokens = 0.0
        self.forked = False
        self.awaited_tokens: dict[NodeId, float] = {}

    def share(self, tokens: float) -> None:
        """One of its generations has so much from others."""
        self.shared_tokens = max(self.shared_tokens, tokens)

    def begin_generation(self, node_id: NodeId, prompt_tokens: int) -> None:
        """Note that a generation is under way.

        In a chain each prompt holds the context of the generation before it, and more. Of a fork
        nothing is known.
        """
        alone = self.running_tokens < 1.0
        if alone and not self.forked and prompt_tokens >= self.trunk_tokens:
            self.awaited_tokens[node_id] = self.trunk_tokens
        self.forked = not alone

    def look(self) -> None:
        """Work out what follows from what runs and what waits."""
        if not self.running_tokens:
            self.shared_tokens = 0.0
        self.context_tokens = max(self.running_tokens + self.shared_tokens, self.trunk_tokens)

    def measure(self) -> None:
        """The same, and the peak: what a generation came to is known, and it is about to end."""
        self.look()
        self.peak_tokens = max(self.peak_tokens, self.context_tokens)
