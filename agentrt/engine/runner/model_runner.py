"""Model, KV memory and attention together: a packed batch in, logits out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.batch.batch import BatchPacker, ForwardBatch, KvArrival
from agentrt.engine.batch.part import SequenceSlice, wanted_rows
from agentrt.engine.batch.shared_prefix import SharedPrefixes, split_rows
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, pages_for
from agentrt.engine.kv.transfer import to_device
from agentrt.engine.models.loader import LoadedModel, load_model
from agentrt.engine.ops.attention import PagedAttention, serving
from agentrt.engine.ops.cpu_threads import ThreadChoice, Wait, settle
from agentrt.engine.ops.kernel_set import use_threads, waits_of
from agentrt.engine.runner.cuda_graphs import CudaGraphRecorder, CudaGraphs, GraphRecorder

_SEQUENCES_EACH = 2
"""Sequences that a batch has room for, by those that run: rows may count as such."""


class ModelRunner:
    """What computes.

    Attributes:
        model: The loaded model.
        kv: Its KV memory.
        tables: Block tables of the running sequences.
        threads: How many compute, and why.
        arrivals: Who brings KV from another tier, or None.
        graphs: Captured decode steps, or None.
    """

    def __init__(self, config: EngineConfig, tile_tokens: int) -> None:
        self.model: LoadedModel = load_model(config)
        use_threads(self.model.kernels, config.threads or 1)
        layout = self.model.layout
        window = self.model.window_tokens or 1 << 20
        pages = pages_for(
            layout,
            kv_pages=config.kv_pages,
            kv_bytes=config.kv_bytes,
            most_tokens=window * config.max_running,
        )
        self.kv = KvCache(layout, pages)
        self.model.decoder.bind(self.kv, config.step_tokens)
        longest = min(pages, -(-window // config.page_tokens) + 1)
        self.tables = BlockTables(config.max_running, longest, self.kv)
        self._last = torch.zeros(
            config.max_running, dtype=torch.int64, device=self.model.layout.device
        )
        self._packer = BatchPacker(
            self.kv,
            self.tables,
            self._last,
            tokens=config.step_tokens,
            sequences=_SEQUENCES_EACH * config.max_running,
        )
        self._siblings = SharedPrefixes(self.tables, config.page_tokens)
        self._attention = PagedAttention(
            self.kv,
            self.tables,
            heads=self.model.heads,
            tile_tokens=tile_tokens,
            kernels=None if self.model.kernels.name == "torch" else self.model.kernels,
        )
        self.arrivals: KvArrival | None = None
        self.graphs: CudaGraphs | None = None
        self._probe(config)
        self.threads = self._settle_threads(config)
        captures = self.model.report.path == "fast" and self.model.kernels.name == "triton"
        if config.device == "cuda" and config.graphs == "auto" and captures:
            self.capture(CudaGraphRecorder(), config.max_running)

    def forward(self, parts: Sequence[SequenceSlice]) -> Tensor:
        """Logits `[wanted, vocabulary]` fp32, for each part that wants them and for each guess."""
        rows = split_rows(parts, self._packer.most_sequences)
        if self.graphs is not None and self.graphs.tier(rows) is None and self.graphs.tier(parts):
            rows = parts
        return self._forward(rows)

    def _forward(self, parts: Sequence[SequenceSlice]) -> Tensor:
        prefix = self._siblings.of(parts)
        whole = self.graphs is not None and self.graphs.tier(parts) is not None
        if self.arrivals is not None and (whole or self.model.report.path == "slow"):
            self.arrivals.wait(self.model.layout.layers - 1)  # those layers do not ask one by one
        if self.graphs is not None and whole:
            return self.graphs.forward(parts, prefix)
        batch = self._packer.pack(parts, prefix)
        if any(part.drafted for part in parts):
            batch.wanted = to_device(wanted_rows(parts), torch.int64, self._last.device)
        batch.arrivals = self.arrivals
        return self._logits(batch)

    def logits_at(self, parts: Sequence[SequenceSlice], rows: Sequence[int]) -> Tensor:
        """Logits `[rows, vocabulary]` fp32 behind these rows of the packed `parts`."""
        if self.arrivals is not None:
            self.arrivals.wait(self.model.layout.layers - 1)
        parts = split_rows(parts, self._packer.most_sequences)
        batch = self._packer.pack(parts, self._siblings.of(parts))
        batch.wanted = to_device(rows, torch.int64, self._last.device)
        return self._logits(batch)

    def _logits(self, batch: ForwardBatch) -> Tensor:
        """In fp32. What others need around a forward costs as much as a small model's layer."""
        if self.model.decoder.is_one_call:
            return self.model.decoder(batch)
        return self._computed(batch).float()

    def _computed(self, batch: ForwardBatch) -> Tensor:
        """What a decoder computes that attends through us."""
        self._attention.begin(batch)
        with torch.inference_mode(), serving(self._attention):
            return self.model.decoder(batch)

    def capture(self, recorder: GraphRecorder, most_sequences: int) -> None:
        """Capture decode steps; from now on they are replayed."""
        self.graphs = CudaGraphs(
            self._computed, self.kv, self.tables, self._packer, recorder, most_sequences
        )

    def remember(self, slots: Sequence[int], token_ids: Tensor) -> None:
        """The tokens `[slots]` int64 that these slots drew: a later batch may name them by slot."""
        where = to_device(slots, torch.int64, self._last.device)
        self._last.index_copy_(0, where, token_ids)

    def _settle_threads(self, config: EngineConfig) -> ThreadChoice:
        """By steps of the model itself, where nothing is known yet.

        A token, and a page of a prompt: where weights are read as fast as memory allows a second
        thread gains nothing in the one and much in the other.
        """
        model, kernels = self.model, self.model.kernels
        token = SequenceSlice(slot=0, token_ids=[0], position=0, wants_logits=True)
        page = replace(token, token_ids=[0] * config.page_tokens)

        def use(threads: int, wait: Wait) -> None:
            use_threads(kernels, threads, wait)

        return settle(
            config,
            model.report.computed_by,
            model.parameters,
            waits_of(kernels),
            use,
            lambda: (self.forward([token]), self.forward([page])),
        )

    def _probe(self, config: EngineConfig) -> None:
        """Run once: an architecture that does not attend through us is found here, not later."""
        part = SequenceSlice(slot=0, token_ids=[0], position=0, wants_logits=True)
        try:
            logits = self.forward([part])
        except Exception as error:
            raise ModelInvalid(
                f"{config.model_path} cannot run here: {type(error).__name__}: {error}",
                hint="Serve this model elsewhere and pass --engine URL",
            ) from error
        slow = self.model.report.path == "slow"
        if slow and self._attention.layers_seen != self.model.layout.layers:
            raise ModelInvalid(
                f"{config.model_path} attends in {self._attention.layers_seen} of "
                f"{self.model.layout.layers} layers through the engine",
                hint="Serve this model elsewhere and pass --engine URL",
            )
        if not bool(torch.isfinite(logits).all()):
            raise ModelInvalid(
                f"{config.model_path} computes logits that are not finite in "
                f"{self.model.layout.dtype}",
                hint="Set dtype to float32, or check the weights",
            )
