"""KV footprint of a run on one engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrt.base.ids import NodeId


@dataclass(slots=True, eq=False)
class Footprint:
    """KV that a run needs on one engine.

    Attributes:
        committed_tokens: Tokens committed by admission control.
        context_tokens: Current need: its generations in flight, or the context that it continued
            last if that is more.
        longest_tokens: Longest context that a generation reached.
        peak_tokens: Largest need so far.
        running_tokens: Expected own KV of the generations in flight.
        shared_tokens: Most KV that one of those shares with others.
        last_context_tokens: Context of the generation that ended last; between two turns of a
            tool loop the run comes back to it.
        is_fork: Whether other generations were in flight when the last one began.
        expected_cached_tokens: Context that generations which continue the last one should find in
            the cache, by node.
    """

    committed_tokens: float
    context_tokens: float = 0.0
    longest_tokens: float = 0.0
    peak_tokens: float = 0.0
    running_tokens: float = 0.0
    shared_tokens: float = 0.0
    last_context_tokens: float = 0.0
    is_fork: bool = False
    expected_cached_tokens: dict[NodeId, float] = field(default_factory=dict)

    def note_shared(self, tokens: float) -> None:
        """Note that a generation shares this much KV with others."""
        self.shared_tokens = max(self.shared_tokens, tokens)

    def add_generation(self, node_id: NodeId, prompt_tokens: int) -> None:
        """Note that a generation is in flight.

        In a chain each prompt contains the context of the generation before it, and more. For a
        fork nothing is known.
        """
        alone = self.running_tokens < 1.0
        if alone and not self.is_fork and prompt_tokens >= self.last_context_tokens:
            self.expected_cached_tokens[node_id] = self.last_context_tokens
        self.is_fork = not alone

    def update_context(self) -> None:
        """Update the current need from running and waiting work."""
        if not self.running_tokens:
            self.shared_tokens = 0.0
        self.context_tokens = max(
            self.running_tokens + self.shared_tokens, self.last_context_tokens
        )

    def update_peak(self) -> None:
        """Update the current need and the peak, when a generation is about to end."""
        self.update_context()
        self.peak_tokens = max(self.peak_tokens, self.context_tokens)
