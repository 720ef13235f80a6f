"""Logits of texts: what a model computes behind each token of a text that is given whole.

It is the engine's own runner with one sequence and a cache of one chunk: quantised weights, kernels
and KV are those of a run. Nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.runner.model_executor import TILE_TOKENS
from agentrt.engine.runner.model_runner import ModelRunner

PIECE_TOKENS = 128
"""Most tokens of one forward: their logits and their layers' outputs are held at once."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Consecutive scored tokens of a chunk.

    Attributes:
        logits: fp32 `[tokens, vocabulary]`, those from which each of them is drawn.
        layers: Output of each layer there, fp32 `[layers, tokens, width]`; of no layers if the
            model does not expose them. Overwritten by the next piece.
    """

    logits: Tensor
    layers: Tensor


class TextRunner:
    """A model that computes the logits of chunks of text.

    Args:
        config: Settings of its engine; sizes, drafts and offload are left aside. An adapter of it
            computes all of the text.
        chunk_tokens: Longest chunk.
        piece_tokens: Most tokens of one forward.

    Attributes:
        layers: Layers whose outputs are exposed; 0 for a model that transformers computes.
        width: Width of these outputs.

    Raises:
        ModelInvalid: The model cannot be loaded.
        EngineUnavailable: The device or the kernels are missing.
        UsageError: A chunk is longer than the model's window, or there are several adapters.
    """

    def __init__(
        self, config: EngineConfig, chunk_tokens: int, piece_tokens: int = PIECE_TOKENS
    ) -> None:
        page, self._piece_tokens = config.page_tokens, piece_tokens
        self._adapter = len(config.adapters)
        if self._adapter > 1:
            raise UsageError(
                f"a text is scored with one adapter, and {config.model_path} has {self._adapter}",
                hint="give each adapter a configuration of its own",
            )
        config = replace(
            config.sized(),
            kv_pages=-(-chunk_tokens // page),
            kv_bytes=0,
            step_tokens=max(piece_tokens, page),
            max_running=1,
            host_kv_bytes=0,
            draft_model=None,
            speculate_tokens="off",
            graphs="off",
        )
        runner = self._runner = ModelRunner(config, TILE_TOKENS)
        model = runner.model
        limits = [one for one in (model.window_tokens, model.rope_threshold) if one]
        longest = min(limits, default=chunk_tokens)
        if chunk_tokens > longest:
            raise UsageError(
                f"chunks of {chunk_tokens} tokens are longer than the {longest} of {model.name}",
                hint=f"give --chunk-tokens {longest} or less",
            )
        runner.tables.write(0, 0, [PageId(at) for at in range(config.kv_pages)])
        self.layers, self.width = model.network.layer_sizes
        self._outputs = torch.empty(
            (self.layers, piece_tokens, self.width), device=model.layout.device
        )

    def pieces(self, token_ids: Sequence[int], first: int) -> Iterator[TextPiece]:
        """Logits behind a chunk's tokens, piece by piece.

        Args:
            token_ids: The chunk, at most `chunk_tokens`; each piece sees all that stands before.
            first: First scored token, from 1 on.
        """
        known = len(token_ids) - 1  # nothing is drawn behind the last
        size = self._piece_tokens
        starts = [*range(0, first - 1, size), *range(first - 1, known, size)]
        for start, end in zip(starts, [*starts[1:], known], strict=True):
            ids = token_ids[start:end]
            piece = SequenceSlice(0, ids, start, wants_logits=False, adapter=self._adapter)
            scored = range(end - start) if start >= first - 1 else range(0)
            kept = self._outputs.flatten()[: self.layers * len(scored) * self.width]
            layers = kept.view(self.layers, len(scored), self.width)
            network = self._runner.model.network
            network.layer_outputs = layers if self.layers and scored else None
            logits = self._runner.logits_at([piece], scored)
            if scored:
                yield TextPiece(logits, layers)
